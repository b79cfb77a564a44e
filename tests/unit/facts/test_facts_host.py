"""The host's own state, its cards, the toolkit: recorded texts, and the real scripts against stand-in commands."""

from pathlib import Path

import pytest

from hami_k3s.facts import batch
from hami_k3s.facts.binary import Binary, BinaryState
from hami_k3s.facts.files import Digests
from hami_k3s.facts.host import Host, is_provider
from hami_k3s.facts.host import parse as parse_host
from hami_k3s.facts.machine import Filesystem
from hami_k3s.facts.nvidia import Nvidia, NvidiaState, state
from hami_k3s.facts.toolkit import PACKAGES, Toolkit, primary_fingerprints
from hami_k3s.facts.toolkit import parse as parse_toolkit
from tests.recorded.lab import recorded
from tests.unit.facts.answers import answered
from tests.unit.facts.host_tools import Bin

SMI = recorded("h200/nvidia-smi-query.csv")
MODULE = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)\n"
    "GCC version:  gcc version 12.2.0"
)
RUNTIME = "NVIDIA Container Runtime version 1.19.1\ncommit: 0123\nspec: 1.2.1\n\nrunc version 1.3.0"


def nvidia(**probes: object) -> NvidiaState:
    return state(batch.parse(answered(probes)))


def test_cards_of_a_real_host() -> None:
    now = nvidia(smi=SMI, module=MODULE, pci="x\n", toolkit=RUNTIME)
    assert now.cards is not None
    (card,) = now.cards
    assert (card.index, card.name, card.memory_mib, card.mig) == (0, "NVIDIA H200", 143771, "Disabled")
    assert card.uuid == "GPU-f267499c-37f0-6227-95d2-9659518eaae9"
    assert (now.module, now.module_kind, now.pci, now.toolkit) == ("580.159.04", "open", 1, "1.19.1")


@pytest.mark.parametrize(
    ("answer", "cards", "message"),
    [
        (("No devices were found", 6), (), "No devices were found"),
        (("", 127), None, "command not found"),
        (("", 124), None, "no answer in 30 s"),
        (("", 137), None, "no answer in 30 s"),
        (
            ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
            None,
            "NVIDIA-SMI",
        ),
        (("<html>", 0), None, "index, uuid"),
    ],
)
def test_nvidia_smi_that_does_not_tell(answer: tuple[str, int], cards: object, message: str) -> None:
    now = nvidia(smi=answer)
    assert now.cards == cards
    assert message in now.message


def test_proprietary_module() -> None:
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024"
    assert (nvidia(module=text).module, nvidia(module=text).module_kind) == ("535.183.01", "proprietary")


def test_nvidia_through_the_real_script(host: Bin, tmp_path: Path) -> None:
    (tmp_path / "smi.csv").write_text(SMI)
    host.put("nvidia-smi", f"cat {tmp_path}/smi.csv")
    host.put("nvidia-container-runtime", "echo 'NVIDIA Container Runtime version 1.19.1'")
    now = host.read(Nvidia)
    assert (len(now.cards), now.message, now.toolkit) == (1, "ok", "1.19.1")


def test_host_that_is_fine() -> None:
    now = parse_host(
        answered(
            {
                "user": "ubuntu",
                "root": "0",
                "init": "systemd",
                "os": "ubuntu\n24.04",
                "machine": "x86_64",
                "mount": "",
                "container": ("none", 1),
                "cgroup2": "yes",
                "k3s": "k3s version v1.36.2+k3s1 (abc)\ngo version go1",
                "smi": SMI,
            }
        )
    )
    assert (now.user, now.root, now.systemd, now.can_mount, now.cgroup2) == ("ubuntu", True, True, True, True)
    assert (now.os_id, now.os_version, now.container, now.k3s) == ("ubuntu", "24.04", None, "v1.36.2+k3s1")
    assert now.providers == ()


def test_what_the_machine_says() -> None:
    now = parse_host(
        answered(
            {
                "disk": "Filesystem     1024-blocks    Used Available Capacity Mounted on\n"
                "/dev/vda1        20480000 4096000  15360000      22% /\n"
                "/dev/vdb1        10240000  512000   9216000       6% /var/lib/containerd",
                "sockets": "tcp:   0: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 1\n"
                "tcp6:   3: 00000000000000000000000000000000:280A 00000000000000000000000000000000:0000 0A 0:0\n"
                "udp:  12: 00000000:2118 00000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 2",
                "listeners": 'tcp LISTEN 0 4096 *:10250 *:* users:(("kubelet",pid=1,fd=3))',
                "apt_config": 'Acquire::http::Proxy "http://user:word@proxy.example:3128";\n'
                'Unattended-Upgrade::Package-Blacklist:: "nvidia-";',
            }
        )
    ).room
    assert now.filesystems == {
        "/var/lib/rancher": Filesystem("/", 15000, 22),
        "/var/lib/containerd": Filesystem("/var/lib/containerd", 9000, 6),
    }
    assert now.taken == {(6443, "tcp"): "", (10250, "tcp"): "kubelet", (8472, "udp"): ""}
    assert now.proxies == {"apt": "http://proxy.example:3128"}


def test_rolling_debian_has_no_version() -> None:
    now = parse_host(answered({"os": "debian"}))
    assert (now.os_id, now.os_version) == ("debian", None)


def test_sudo_is_asked_for_and_its_refusal_is_a_value(host: Bin) -> None:
    host.put("id", '[ "$1" = -u ] && echo 1000 || echo ubuntu')
    host.put("sudo", "exit 1")
    assert (host.read(Host).user, host.read(Host).root) == ("ubuntu", False)
    host.put("sudo", '[ "$1" = -n ] || exit 9; shift; [ "$1" = id ] && echo 0 || exec "$@"')
    host.put("unshare", "exit 0")
    now = host.read(Host)
    assert (now.root, now.can_mount) == (True, True)


def test_a_manifest_of_a_second_provider_is_named() -> None:
    now = parse_host(answered({"manifests": "/var/lib/rancher/k3s/server/manifests/nvdp.yaml"}))
    assert now.providers == ("manifest /var/lib/rancher/k3s/server/manifests/nvdp.yaml",)
    assert not is_provider("hami-device-plugin docker.io/projecthami/hami:v2.9.0")
    assert is_provider("nvidia-device-plugin-daemonset")


SHOWN = """pub:-:4096:1:DDCAE044F796ECB0:1504552166:::-:::scSC::::::23::0:
fpr:::::::::C95B321B61E88C1809C4F759DDCAE044F796ECB0:
uid:-::::1504552166::0123::NVIDIA CORPORATION (Open Source Projects) <cudatools@nvidia.com>::::::::::0:
sub:-:4096:1:0123456789ABCDEF:1504552166::::::e::::::23:
fpr:::::::::0000000000000000000000000123456789ABCDEF:"""


def test_only_primary_keys_count() -> None:
    assert primary_fingerprints(SHOWN) == ("C95B321B61E88C1809C4F759DDCAE044F796ECB0",)
    assert len(primary_fingerprints(f"{SHOWN}\n{SHOWN}")) == 2
    assert primary_fingerprints("gpg: no valid OpenPGP data found.") == ()


def test_toolkit_packages() -> None:
    now = parse_toolkit(
        answered(
            {
                "packages": "libnvidia-container1 1.19.1-1 installed hold\n"
                "libnvidia-container-tools 1.19.1-1 config-files deinstall\n"
                "nvidia-container-toolkit  not-installed unknown\n"
                " nvidia-container-toolkit | 1.19.1-1 | http://x  Packages\n"
                " nvidia-container-toolkit | 1.18.2-1 | http://x  Packages",
                "others": ("", 1),
                "key": SHOWN,
            }
        )
    )
    assert now.installed == {"libnvidia-container1": "1.19.1-1"}
    assert now.candidates == ("1.19.1-1", "1.18.2-1")
    assert now.held == ("libnvidia-container1",)
    assert now.fingerprints == ("C95B321B61E88C1809C4F759DDCAE044F796ECB0",)
    assert now.source is None


def test_toolkit_through_the_real_script(host: Bin) -> None:
    host.put(
        "apt-cache", '[ "$1" = madison ] && echo " nvidia-container-toolkit | 1.19.1-1 | http://x  Packages"'
    )
    lines = "".join(f"{name} 1.19.1-1 installed hold\\n" for name in PACKAGES)
    asked = "${Package} ${Version} ${db:Status-Status} ${db:Status-Want}\\n"
    host.put("dpkg-query", f"[ \"$3\" = '{asked}' ] && printf '{lines}'")
    url = "https://mirror.example/a$(touch /tmp/hami-k3s-injected)'b"
    now = host.read(Toolkit, url=url, version="1.20.0")
    assert now.candidates == ("1.19.1-1",)
    assert set(now.installed) == set(now.held) == set(PACKAGES)
    # with all packages at the wanted version nobody needs to know what else there is
    assert host.read(Toolkit, url=url, version="1.19.1").candidates == ()
    assert not Path("/tmp/hami-k3s-injected").exists()


def test_binary_and_its_link(host: Bin, tmp_path: Path) -> None:
    versioned, public = tmp_path / "it's v1", tmp_path / "tool $(x)"

    def now() -> BinaryState:
        found = host.read(Binary, versioned=str(versioned), public=str(public))
        assert isinstance(found, BinaryState)
        return found

    versioned.write_text("")
    assert (now().there, now().link) == (False, "")  # not executable: an interrupted chmod
    versioned.chmod(0o755)
    public.symlink_to(tmp_path / "gone")
    assert (now().there, now().link) == (True, str(tmp_path / "gone"))
    public.unlink()
    public.write_text("somebody else's")
    assert now().link == "file"


def test_digests(host: Bin, tmp_path: Path) -> None:
    path, link, folder = tmp_path / "a b'c", tmp_path / "link", tmp_path / "folder"
    path.write_text("text")
    path.chmod(0o600)
    link.symlink_to(path)
    folder.mkdir()
    found = host.read(Digests, paths=[str(path), str(link), str(folder), str(tmp_path / "missing")])
    assert found == {str(path): ("982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1", "600")}
