"""States of a host that preflight names, as faults of a node. Each is also a profile: `up --profile NAME`."""

from __future__ import annotations

# The cards and their driver
CARDS = {
    "no-driver": "a card on the bus and no driver; NVIDIA's packages bring it (=reboot: after a reboot)",
    "nouveau": "the card is driven by nouveau",
    "other-kernel": "the driver's module is there for another kernel only",
    "library-mismatch": "the driver's library is newer than the loaded module",
    "driver-old": "the driver's branch is too old for the card",
    "closed-module": "the closed kernel module on a card that needs the open one",
    "open-module-old-card": "the open kernel module on a Volta card",
    "mig-pending": "MIG mode changes at the next reset",
    "compute-exclusive": "the cards are in compute mode Exclusive_Process",
    "persistence-off": "persistence is off",
    "ecc-errors": "the cards count uncorrected memory errors",
    "nvswitch": "NVSwitches on the bus and no Fabric Manager",
    "xid": "an XID error in the kernel log (=N, default 79)",
}
# The machine under them
MACHINE = {
    "no-sudo": "user ubuntu has no sudo",
    "os": "another system (=ID:VERSION, default ubuntu:20.04)",
    "machine": "uname names another architecture (=NAME, default riscv64)",
    "disk-full": "64 MiB are free under /var/lib/rancher, more than 85 % are used",
    "little-memory": "the machine has N MiB of memory (=N, default 900)",
    "clock-off": "the clock is N seconds ahead (=N, default 3600)",
    "bad-hostname": "the hostname cannot be a node's name (=NAME, default Bad_Name)",
    "port-taken": "something listens on k3s' port 6443",
    "ufw": "ufw is on, without a rule for pods",
    "firewalld": "firewalld is on, without a rule for pods",
    "proxy-partial": "a proxy in /etc/environment alone",
    "apt-sources": "one repository twice with different keys",
    "apt-toolkit-source": "the toolkit's repository is listed with another key",
    "dpkg-interrupted": "dpkg was ended in the middle",
    "half-configured": "a package is unpacked and not configured",
    "first-boot": "cloud-init is at work",
    "held": "the toolkit is held at 1.18.2",
    "driver-upgrades": "unattended upgrades may replace the driver",
}
# What else is installed
OTHERS = {
    "operator-leftover": "a GPU Operator's toolkit is left",
    "other-kubelet": "a kubelet runs",
    "k3s-there": "a k3s of somebody else's is there (=VERSION, default v1.37.1+k3s1)",
    "k3s-flags": "a k3s.service of somebody else's has arguments",
    "k3s-agent": "the host is an agent of another cluster",
}
ALL = CARDS | MACHINE | OTHERS
# Faults from before that are hosts of their own, too
MORE = ("no-gpu", "mig", "second-device-plugin", "apt-lock")
# The card of a profile where it is not the usual one: its driver is of the branch that is installed by default.
CARD = {"no-driver": "l4", "nvswitch": "h200", "ecc-errors": "h200"}
