"""The command that was typed, as text that may be kept and typed again."""

from __future__ import annotations

import shlex

import pytest

from hami_k3s.command_line import again, operator, shown

PYINFRA = "/home/anna/.venv/bin/pyinfra"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPU_FLEET", "GPU_NODES", "GPU_LOCK", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)


def test_it_is_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_FLEET", "my fleet.yaml")
    words = [PYINFRA, "inventory.py", "deploys/verify.py", "-y", "--data", "hami_values={'a': 'b c'}"]
    text = shown(words)
    assert text.startswith("GPU_FLEET='my fleet.yaml' pyinfra inventory.py deploys/verify.py -y --data ")
    assert shlex.split(text)[2:] == words[1:]


@pytest.mark.parametrize(
    "words",
    [
        ["--ssh-password", "hunter2"],
        ["--password=hunter2"],
        ["--data", "http_proxy=http://anna:hunter2@proxy:3128"],
        ["--data", "k3s_registries={'configs': {'r': {'auth': {'password': 'hunter2'}}}}"],
        ["--data=ssh_key_password=hunter2"],
        ["--data", "hami_chart_repository=https://anna:hunter2@charts.example"],
        ["--data", "k3s_token=hunter2"],
    ],
)
def test_no_secret_is_kept(words: list[str]) -> None:
    text = shown([PYINFRA, "inventory.py", "deploys/gpu_node.py", *words, "--limit", "gpu-1"])
    assert "hunter2" not in text
    assert "***" in text
    assert text.endswith("--limit gpu-1")


def test_again_is_for_the_named_hosts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_NODES", "root@a,root@b,root@c")
    given = [
        PYINFRA,
        "--limit",
        "a",
        "inventory.py",
        "deploys/gpu_node.py",
        "--limit=b",
        "-y",
        "--limit",
        "c",
    ]
    assert again(["b", "c d"], given) == (
        "GPU_NODES=root@a,root@b,root@c pyinfra inventory.py deploys/gpu_node.py -y --limit b --limit 'c d'"
    )


def test_the_user_who_called_sudo_is_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "anna")
    assert operator().startswith("anna@")
