"""The whole catalogue: each code is produced by some test, each with a fix and a heading; recorded texts of what no
rehearsal node can be."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hami_k3s.facts.apt import AptState
from hami_k3s.facts.cluster import ClusterState, Installed, Revision
from hami_k3s.facts.cluster import parse as parse_cluster
from hami_k3s.facts.driver import Device, DriverState, xids
from hami_k3s.facts.host import HostState, parse
from hami_k3s.facts.machine import MachineState, without_credentials
from hami_k3s.facts.sources import Reached, Source
from hami_k3s.preflight import CATALOGUE, Judgement, Look, judge
from hami_k3s.preflight.__main__ import PARTS, markdown
from hami_k3s.preflight.driver import CUDA_NEEDS
from hami_k3s.preflight.network import sources
from hami_k3s.reports.preflight import Run, as_data, summary, table
from hami_k3s.settings import Settings, SettingsError, check
from tests.rehearsal.test_preflight import CASES as STAGED
from tests.unit.facts.answers import answered
from tests.unit.test_lib_preflight import CASES as STATES
from tests.unit.test_lib_preflight import FINE, GPU

ROOT = Path(__file__).resolve().parents[2]

# Kernel log lines as NVIDIA's "XID Errors" page and its open kernel modules' issues show them.
XID_79 = (
    "[ 1234.5] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
XID_31 = (
    "[   99.1] NVRM: Xid (PCI:0000:03:00): 31, pid=15413, name=python, Ch 00000008, intr 10000000. MMU Fault"
)
XID_OLD = "NVRM: Xid (0000:03:00): 13, Graphics Exception: ESR 0x404490=0x80000001"
OPEN_NEEDED = (
    "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85) requires use of the NVIDIA open kernel modules."
)
REFUSED = "nvidia: module verification failed: signature and/or required key missing - tainting kernel"
FABRIC = "Fabric Manager version is : 535.104.05"
SWITCHES = (
    Device("0000:05:00.0", "0302", 0x2330, "nvidia"),
    *(Device(f"0000:0{n}:00.0", "0680", 0x22A3) for n in range(7, 9)),
)
MODULE = DriverState(
    devices=(),
    on_disk={"6.8.0-1": "/lib/modules/6.8.0-1/updates/dkms/nvidia.ko"},
    kernel="6.8.0-1",
    signer="",
)


def driver(**parts: Any) -> DriverState:
    """From answers of the probes."""
    usual = {"pcidev": "0000:05:00.0 0x030200 0x2bb5 nvidia"}
    return parse(answered({**usual, **parts}), now=0).driver


def found(
    state: HostState, settings: Settings | None = None, cluster: ClusterState | None = None
) -> Judgement:
    return judge(Look(state, settings or Settings(), cluster, "gpu-1"))


# What no rehearsal node can be: state -> code
RECORDED: list[tuple[str, HostState, Settings]] = [
    ("xid-fatal", replace(FINE, driver=driver(dmesg=XID_79)), Settings()),
    ("xid", replace(FINE, driver=driver(dmesg=XID_31)), Settings()),
    (
        "secure-boot",
        replace(
            FINE,
            nvidia=replace(GPU, cards=None, module=None, module_kind=None),
            driver=replace(MODULE, secure_boot=True),
        ),
        Settings(),
    ),
    (
        "secure-boot",
        replace(
            FINE,
            nvidia=replace(GPU, cards=None, module=None, module_kind=None),
            driver=driver(secureboot="   1", dmesg=REFUSED),
        ),
        Settings(),
    ),
    (
        "fabric-manager",
        replace(FINE, driver=DriverState(devices=SWITCHES, fabric_unit="inactive")),
        Settings(),
    ),
    (
        "fabric-manager",
        replace(
            FINE, driver=replace(driver(fabric="loaded\nactive", fabric_version=FABRIC), devices=SWITCHES)
        ),
        Settings(),
    ),
    (
        "module-closed",
        replace(
            FINE,
            nvidia=replace(GPU, cards=(), module_kind="proprietary"),
            driver=replace(
                driver(dmesg=OPEN_NEEDED), devices=(Device("0000:01:00.0", "0300", 0x1EB8, "nvidia"),)
            ),
        ),
        Settings(),
    ),
    ("no-default-route", replace(FINE, room=MachineState(default_route=False)), Settings()),
    ("driver-old", replace(FINE, nvidia=replace(GPU, module="535.183.01")), Settings()),
    (
        "driver-old",
        replace(FINE, nvidia=replace(GPU, module="570.86.10")),
        Settings(verify_probe="nvcc", verify_nvcc_image="docker.io/nvidia/cuda:13.0.1-devel-ubuntu24.04"),
    ),
    (
        "source-unreachable",
        replace(
            FINE, sources=(Reached(Source("key", "https://x/key", "toolkit_repository_url"), 0, 0.0, False),)
        ),
        Settings(),
    ),
]


@pytest.mark.parametrize(
    ("code", "state", "settings"), RECORDED, ids=[f"{c[0]}-{n}" for n, c in enumerate(RECORDED)]
)
def test_recorded(code: str, state: HostState, settings: Settings) -> None:
    assert {one.code for one in found(state, settings).problems} == {code}


def test_every_code_is_produced_by_a_test() -> None:
    staged = {code for codes in STAGED.values() for code in codes}
    cluster = {
        "hami-elsewhere",
        "hami-version",
        "hami-annotations",
        "helm-stuck",
    }  # test_what_a_converged_node_says
    alone = {"hostname-twice"}
    produced = staged | cluster | alone | {case[0] for case in STATES} | {case[0] for case in RECORDED}
    assert {entry.code for entry in CATALOGUE} == produced


def test_codes_are_unique_and_plain() -> None:
    codes = [entry.code for entry in CATALOGUE]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[a-z0-9-]+", code) for code in codes)
    assert {entry.judge.__module__.rpartition(".")[2] for entry in CATALOGUE} == set(PARTS)
    for entry in CATALOGUE:
        assert entry.why
        assert entry.fix
        assert "\n" not in entry.why


def test_the_page_is_the_catalogue() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    assert text == markdown()
    headings = re.findall(r"^### (.+)$", text, re.MULTILINE)
    assert sorted(headings) == sorted(entry.code for entry in CATALOGUE)


def test_a_host_of_which_nothing_is_known_passes_nothing() -> None:
    """Each thing that could not be read is listed as such."""
    bare = found(HostState())
    assert {
        "disk",
        "memory",
        "clock",
        "apt-lock",
        "held",
        "port-taken",
        "source-unreachable",
        "no-device",
    } <= set(bare.unknown)
    assert not {one.code for one in bare.problems} & set(bare.unknown)


def test_xid_lines() -> None:
    assert [one.number for one in xids((XID_79, XID_31, XID_OLD, "NVRM: loading"))] == [79, 31, 13]


def test_secure_boot_with_a_loaded_module_is_fine() -> None:
    assert found(replace(FINE, driver=replace(driver(), secure_boot=True))).problems == ()


def test_the_default_image_of_the_nvcc_probe_is_in_the_table() -> None:
    match = re.search(r"cuda:(\d+)\.", Settings().verify_nvcc_image)
    assert match
    assert int(match.group(1)) in CUDA_NEEDS


def test_two_hosts_of_one_name() -> None:
    room = MachineState(hostname="gpu-1", machine_id="a")
    other = Look(replace(FINE, room=replace(room, machine_id="b")), Settings(), name="second")
    look = Look(replace(FINE, room=room), Settings(), None, "first", {"second": other})
    (problem,) = judge(look).problems
    assert (problem.code, problem.severity) == ("hostname-twice", "warns")
    assert "that of second" in problem.seen
    clone = replace(other, state=replace(FINE, room=replace(room, hostname="gpu-2")))
    (problem,) = judge(replace(look, others={"second": clone})).problems
    assert "machine id" in problem.seen


def test_what_a_cluster_says() -> None:
    register = '[{"id":"GPU-00000000-0000-0000-0000-000000000009","count":10}]'
    cluster = ClusterState(
        answers=True,
        providers=("DaemonSet x",),
        hami=(Installed("gpu", "mine", "hami-2.9.0"), Installed("kube-system", "hami", "hami-2.6.1")),
        releases=(Revision("kube-system", "hami", "pending-upgrade", 3),),
        annotations={
            "hami.io/node-nvidia-register": register,
            "hami.io/node-handshake": "Deleted_2026-07-07 10:20:00",
            "hami.io/mutex.lock": "2026-07-07T10:00:00+08:00,default,pod",
        },
        now=1_800_000_000,
    )
    seen = found(FINE, cluster=cluster).problems
    assert {one.code for one in seen} == {
        "second-device-plugin", "hami-elsewhere", "hami-version", "helm-stuck", "hami-annotations",
    }  # fmt: skip
    assert [one.code for one in seen].count("hami-annotations") == 3
    assert found(FINE, cluster=parse_cluster([])).unknown["second-device-plugin"].startswith("the API server")


def test_a_lock_that_somebody_holds_explains_dpkg() -> None:
    apt = AptState(
        errors=(),
        holders=("apt-get (process 7)",),
        interrupted=True,
        half=("a",),
        held={},
        nvidia={},
        upgrades=(),
    )
    assert [one.code for one in found(replace(FINE, apt=apt)).problems] == ["apt-lock"]


def test_certificate_that_only_the_private_ca_will_make_trusted() -> None:
    reached = Reached(
        Source("key", "https://x/key", "toolkit_repository_url"),
        0,
        0.0,
        False,
        "",
        "curl: (60) SSL certificate",
    )
    state = replace(FINE, sources=(reached,))
    assert [one.code for one in found(state).problems] == ["source-unreachable"]
    seen = found(state, Settings().model_copy(update={"private_ca": "ca.pem"}))
    assert seen.problems == ()
    assert "not trusted before private_ca is installed" in seen.unknown["source-unreachable"]


def test_mirror_in_china_is_asked_by_its_own_names() -> None:
    urls = [one.url for one in sources(check({"mirror": "cn"}))]
    assert "https://rancher-mirror.rancher.cn/k3s/v1.36.2-k3s1/sha256sum-{arch}.txt" in urls


def test_ignored_codes() -> None:
    seen = found(replace(FINE, systemd=False), Settings(preflight_ignore=["no-systemd"]))
    assert (seen.blocking, seen.problems[0].ignored) == ((), True)
    assert "preflight_ignore names it" in table("gpu-1", seen)
    with pytest.raises(SettingsError, match="did you mean no-systemd"):
        check({"preflight_ignore": ["no-sytemd"]})


def test_reports(tmp_path: Path) -> None:
    blocked, fine = found(replace(FINE, systemd=False, driver=DriverState())), found(FINE)
    text = table("gpu-1", blocked)
    assert text.index("no-systemd") < text.index("unknown")
    assert all(len(line) <= 110 for line in text.splitlines())
    assert "no problem found" in table("gpu-2", fine)
    said = summary({"a": blocked, "b": fine}, {"c": "unreachable"})
    assert said.startswith("3 hosts: 1 ready, 1 blocked, 1 not reached")
    assert "no-systemd" in said
    assert as_data(blocked)["problems"][0]["code"] == "no-systemd"
    run = Run()
    run.add("a", blocked, str(tmp_path / "reports"))
    assert '"blocked": 1' in run.write({}).read_text()


def test_proxies_are_shown_without_their_password() -> None:
    assert without_credentials("http://me:secret@proxy:3128") == "http://proxy:3128"
