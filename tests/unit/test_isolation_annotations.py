"""HAMi's annotations, on recorded text and round trip."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_k3s.isolation import parse
from hami_k3s.isolation.evidence import Allocation, RegisteredDevice
from tests.recorded.lab import UUID, recorded


def test_registration_as_the_lab_shows_it() -> None:
    (device,) = parse.parse_registration(recorded("lab/node-nvidia-register.json"))
    assert device == RegisteredDevice(
        UUID, 10, 97887, 100, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 0, True, 0, "hami-core"
    )


def test_a_device_without_health_is_unhealthy() -> None:
    (device,) = parse.parse_registration('[{"id":"GPU-1","count":10,"devmem":100}]')
    assert not device.healthy
    assert (device.index, device.numa) == (0, 0)


def test_text_registrations_of_older_releases() -> None:
    (old,) = parse.parse_registration("GPU-1,10,24564,100,NVIDIA-NVIDIA L4,1,true:")
    assert old == RegisteredDevice("GPU-1", 10, 24564, 100, "NVIDIA-NVIDIA L4", 1, True, 0, "")
    first, second = parse.parse_registration(
        "GPU-1,10,24564,100,NVIDIA-L4,0,true,0,hami-core:GPU-2,10,24564,100,NVIDIA-L4,0,false,1,hami-core:"
    )
    assert (first.healthy, second.healthy, second.index) == (True, False, 1)


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "{}",
        "[1]",
        '[{"count":1}]',
        '[{"id":"a","devmem":"x"}]',
        "GPU-1,10",
        "a,b,c,d,e,f,true:",
        "hello",
    ],
)
def test_a_broken_registration_is_an_error_with_its_text(text: str) -> None:
    with pytest.raises(parse.ParseError, match=r"hami\.io/node-nvidia-register"):
        parse.parse_registration(text)


def test_no_registration_is_no_device() -> None:
    assert parse.parse_registration(" \n") == ()


words = st.text(
    st.characters(codec="ascii", categories=("L", "N"), include_characters="- "), min_size=1
).filter(lambda word: word == word.strip() and word)
numbers = st.integers(0, 10**6)
devices = st.builds(
    RegisteredDevice,
    uuid=words,
    count=numbers,
    memory_mib=numbers,
    cores=numbers,
    type=words,
    numa=numbers,
    healthy=st.booleans(),
    index=numbers,
    mode=words,
)


@settings(deadline=None)
@given(st.lists(devices))
def test_registration_round_trip(wanted: list[RegisteredDevice]) -> None:
    assert parse.parse_registration("".join(as_text(device) for device in wanted)) == tuple(wanted)
    assert parse.parse_registration(json.dumps([as_json(device) for device in wanted])) == tuple(wanted)


def as_text(device: RegisteredDevice) -> str:
    fields = asdict(device)
    order = ("uuid", "count", "memory_mib", "cores", "type", "numa", "healthy", "index", "mode")
    return (
        ",".join(str(fields[name]).lower() if name == "healthy" else str(fields[name]) for name in order)
        + ":"
    )


def as_json(device: RegisteredDevice) -> dict[str, object]:
    """As Go's omitempty writes it: what is zero, false or empty is left out."""
    names = {"uuid": "id", "memory_mib": "devmem", "cores": "devcore", "healthy": "health"}
    return {names.get(name, name): value for name, value in asdict(device).items() if value}


@pytest.mark.parametrize(
    ("text", "state", "time"),
    [
        (None, "absent", ""),
        ("Requesting_2026-07-07 10:20:00", "requesting", "2026-07-07 10:20:00"),
        ("Deleted_2026-07-07 10:20:00", "deleted", "2026-07-07 10:20:00"),
        ("Reported 2024-01-01 00:00:00", "reported", "2024-01-01 00:00:00"),
        ("what", "unknown", "what"),
    ],
)
def test_handshake(text: str | None, state: str, time: str) -> None:
    assert parse.parse_handshake(text) == parse.Handshake(state, time)


def test_allocation_of_two_cards_after_an_init_container() -> None:
    assert parse.parse_allocated(";GPU-a,NVIDIA,3000,30:GPU-b[1-2],NVIDIA,3000,0:;") == (
        Allocation("GPU-a", 3000, 30),
        Allocation("GPU-b[1-2]", 3000, 0),
    )
    assert parse.parse_allocated(";") == parse.parse_allocated("") == ()


@settings(deadline=None)
@given(st.lists(st.lists(st.builds(Allocation, words, numbers, numbers, words))))
def test_allocation_round_trip(containers: list[list[Allocation]]) -> None:
    text = parse.format_allocated(containers)
    assert parse.parse_allocated(text) == tuple(one for devices in containers for one in devices)


@pytest.mark.parametrize("text", ["GPU-a,NVIDIA,3000:;", "GPU-a,NVIDIA,many,0:;"])
def test_a_broken_allocation_is_an_error(text: str) -> None:
    with pytest.raises(parse.ParseError):
        parse.parse_allocated(text)
