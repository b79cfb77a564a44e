"""Every fact on a host that has nothing of ours: it ends with status 0 and says "unknown" as a value."""

import shutil

import pytest

from hami_k3s.facts.binary import Binary
from hami_k3s.facts.files import Digests
from hami_k3s.facts.hami import Hami
from hami_k3s.facts.helm import Release
from hami_k3s.facts.host import Host
from hami_k3s.facts.k3s import K3s
from hami_k3s.facts.nvidia import Nvidia
from hami_k3s.facts.reset import Leftovers, Reset
from hami_k3s.facts.toolkit import Toolkit
from tests.unit.facts.host_tools import Bin

SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]
RELEASE = {"release": "hami", "namespace": "kube-system"}


@pytest.mark.parametrize("shell", SHELLS)
def test_host(host: Bin, shell: str) -> None:
    state = host.read(Host, shell)
    assert state.user
    assert state.machine
    assert state.k3s is None
    assert state.providers == ()
    assert state.nvidia.cards is None
    assert state.nvidia.message == "command not found"
    assert not state.can_mount  # there is neither sudo nor unshare


@pytest.mark.parametrize("shell", SHELLS)
def test_nvidia(host: Bin, shell: str) -> None:
    state = host.read(Nvidia, shell)
    assert (state.cards, state.message, state.toolkit) == (None, "command not found", None)


@pytest.mark.parametrize("shell", SHELLS)
def test_toolkit(host: Bin, shell: str) -> None:
    state = host.read(Toolkit, shell, url="https://nvidia.github.io/libnvidia-container", version="1.19.1")
    assert (state.fingerprints, state.candidates, state.installed, state.held) == ((), (), {}, ())
    assert {"curl", "gpg"} <= set(state.missing_tools)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("api", [False, True])
def test_k3s(host: Bin, shell: str, api: bool) -> None:
    state = host.read(K3s, shell, api=api)
    assert (state.active, state.sub, state.pid, state.enabled, state.stale) == (None, None, 0, False, False)
    assert (state.api, state.nodes, state.own, state.runtime_class) == (None, None, None, False)
    assert state.hostname


@pytest.mark.parametrize("shell", SHELLS)
def test_hami(host: Bin, shell: str) -> None:
    state = host.read(Hami, shell, **RELEASE)
    assert (state.server_version, state.nodes, state.pods, state.providers, state.webhook) == (None,) * 5
    assert set(state.errors) == {"nodes", "daemonsets", "pods", "slices", "webhooks", "dryrun"}
    assert all(state.errors.values())


@pytest.mark.parametrize("shell", SHELLS)
def test_release(host: Bin, shell: str) -> None:
    state = host.read(Release, shell, **RELEASE)
    assert (state.status, state.server_version, state.servers) == (None,) * 3
    assert state.error == "the API server does not answer"


@pytest.mark.parametrize("shell", SHELLS)
def test_reset(host: Bin, shell: str) -> None:
    state = host.read(Reset, shell, **RELEASE, owner="app.kubernetes.io/managed-by=hami-k3s")
    assert (state.api, state.hami) == (False, ())


@pytest.mark.parametrize("shell", SHELLS)
def test_plain_facts(host: Bin, shell: str) -> None:
    assert host.read(Digests, shell, paths=["/nonexistent/a b"]) == {}
    state = host.read(Binary, shell, versioned="/nonexistent/helm 1", public="/nonexistent/helm")
    assert (state.there, state.link) == (False, "")
    assert state.machine


def test_no_output_at_all() -> None:
    """pyinfra gives a fact's default when a command printed nothing, and the default says unknown too."""
    assert Hami().default().nodes is None
    assert Release().default().status is None
    assert K3s().default().active is None
    assert Host().default().nvidia.cards is None
    assert Reset().default() == Leftovers()


@pytest.mark.parametrize("fact", [Hami, Release, K3s, Host, Nvidia, Toolkit, Reset, Digests, Binary])
def test_a_login_banner_is_not_an_answer(fact: type) -> None:
    for banner in (["Welcome to gpu-1", "name=value", "smi=====", ""], ["=", "nodes=bm90IGpzb24KMA=="]):
        fact().process(banner)  # does not raise
