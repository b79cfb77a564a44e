"""registries.yaml: ours in, the user's kept, ours out again; no password where it does not belong."""

from __future__ import annotations

import hashlib
import json

import pytest
import yaml

from hami_k3s.operations.registries import FILE, RECORD, Registries, theirs
from hami_k3s.releases import origin
from hami_k3s.settings import Settings, SettingsError, check

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
