"""registries.yaml: ours in, the user's kept, ours out again; no password where it does not belong."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_k3s.operations.registries import FILE, RECORD, Registries, theirs
from hami_k3s.releases import origin
from hami_k3s.settings import Settings, SettingsError, check
from tests.unit.operations.fake_host import FakeHost

USER = {"mirrors": {"quay.io": {"endpoint": ["https://q"]}, "docker.io": {"endpoint": ["https://mine"]}}}
OURS = {
    "mirrors": {"docker.io": {"endpoint": ["https://m"]}},
    "configs": {"m": {"auth": {"password": "secret"}}},
}
WRITTEN = {"mirrors": {**USER["mirrors"], **OURS["mirrors"]}, "configs": OURS["configs"]}


def test_what_was_there_before_comes_back() -> None:
    assert theirs(WRITTEN, USER, WRITTEN) == USER


def test_what_the_user_wrote_since_stays() -> None:
    edited = {
        **WRITTEN,
        "mirrors": {**WRITTEN["mirrors"], "docker.io": {"endpoint": ["https://new"]}, "gcr.io": {}},
    }
    found = theirs(edited, USER, WRITTEN)
    assert found["mirrors"] == {**USER["mirrors"], "docker.io": {"endpoint": ["https://new"]}, "gcr.io": {}}


def test_first_time_and_other_keys() -> None:
    assert theirs({**USER, "other": 1}, {}, {}) == {**USER, "other": 1}
    assert theirs({}, {}, {}) == {}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_as_it_should_be_is_told_without_reading_the_file() -> None:
    wanted = Registries(OURS)
    text = yaml.safe_dump(WRITTEN)
    record = f"{digest(text)} {digest(json.dumps(OURS, sort_keys=True))}\n"
    right = {FILE: (digest(text), "600"), RECORD: (digest(record), "600")}
    assert wanted.applied(right)
    assert not wanted.applied({**right, FILE: (digest(text), "644")})  # others may read the password
    assert not wanted.applied({**right, FILE: (digest("edited"), "600")})
    assert not wanted.applied({FILE: right[FILE]})
    assert not Registries({}).applied(right)  # ours are to go
    assert Registries({}).applied({FILE: right[FILE]})
    assert "secret" not in repr(wanted)


def test_secrets_come_from_the_environment_and_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASS", "secret")
    value = {"configs": {"m": {"auth": {"username": "u", "password": "env:PASS"}}}}
    assert (
        origin.resolved(check({"k3s_registries": value}).k3s_registries)["configs"]["m"]["auth"]["password"]
        == "secret"
    )
    monkeypatch.delenv("PASS")
    with pytest.raises(SettingsError, match="env:PASS is not set"):
        check({"k3s_registries": value})
    for bad in ({"k3s_registries": {"config": {"password": "secret"}}}, {"http_proxy": "ftp://u:secret@p"}):
        with pytest.raises(SettingsError) as told:
            check(bad)
        assert "secret" not in str(told.value)


def test_proxies() -> None:
    none = Settings()
    assert origin.cluster_environment(none.proxies) == origin.prelude(none.proxies) == ""
    given = Settings(https_proxy="http://u:p@proxy:3128", no_proxy="mine, 10.0.0.0/8")
    lines = origin.cluster_environment(given.proxies).splitlines()
    assert lines[0] == 'HTTPS_PROXY="http://u:p@proxy:3128"'
    assert lines[1].startswith('NO_PROXY="mine,10.0.0.0/8,localhost,127.0.0.0/8,172.16.0.0/12')
    assert ".svc,.cluster.local" in lines[1]
    assert "export https_proxy=http://u:p@proxy:3128 HTTPS_PROXY=" in origin.prelude(given.proxies)
    assert "u:p" not in repr(origin.of(given))


class Folder:
    """A host whose root is a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host: Any = FakeHost(answer=self.answer)
        self.file = root / FILE.lstrip("/")
        self.file.parent.mkdir(parents=True)

    def answer(self, script: str, stdin: str | None) -> tuple[bool, str]:
        here = [
            (text or "").replace(" /etc/", f" {self.root}/etc/").replace(" /usr/", f" {self.root}/usr/")
            for text in (script, stdin)
        ]
        here = [
            text.replace(">/etc/", f">{self.root}/etc/").replace(">/usr/", f">{self.root}/usr/")
            for text in here
        ]
        done = subprocess.run(
            ["sh", "-c", here[0]], input=here[1], capture_output=True, text=True, check=False
        )
        return done.returncode == 0, done.stdout

    def apply(self, wanted: dict[str, Any]) -> None:
        assert Registries(wanted).apply(None, self.host), self.host.heard()  # type: ignore[arg-type]

    def tree(self) -> dict[str, str]:
        return {
            f"{path.relative_to(self.root)} {path.stat().st_mode & 0o777:o}": path.read_text()
            for path in self.root.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "root")


@pytest.mark.parametrize(
    "own", [None, "# mine\nmirrors:\n    quay.io: {endpoint: ['https://q']}\n", "# nothing yet\n"]
)
def test_ours_out_again_leaves_the_file_byte_for_byte(folder: Folder, own: str | None) -> None:
    if own is not None:
        folder.file.write_text(own)
        folder.file.chmod(0o640)
    before = folder.tree()
    folder.apply(OURS)
    assert "secret" in folder.file.read_text()
    folder.apply({})
    assert folder.tree() == before
    folder.apply({})  # cut off and done again
    assert folder.tree() == before


def test_what_the_user_wrote_meanwhile_outlives_ours(folder: Folder) -> None:
    folder.file.write_text("mirrors: {quay.io: {endpoint: ['https://q']}}\n")
    folder.apply(OURS)
    now = yaml.safe_load(folder.file.read_text())
    now["mirrors"]["gcr.io"] = {"endpoint": ["https://g"]}
    folder.file.write_text(yaml.safe_dump(now))
    folder.apply({})
    (name,) = folder.tree()
    left = {"mirrors": {"quay.io": {"endpoint": ["https://q"]}, "gcr.io": {"endpoint": ["https://g"]}}}
    assert yaml.safe_load(folder.tree()[name]) == left
