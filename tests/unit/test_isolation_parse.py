"""The parsers, on recorded text and on whatever hypothesis thinks of."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_k3s.isolation import parse
from hami_k3s.isolation.evidence import Event
from tests.recorded.lab import NODE, UUID, recorded

SLICE = 8000 * 1024 * 1024


@pytest.mark.parametrize(
    ("name", "would_be"),
    [
        ("lab/probe-stderr.txt", 8629780480),
        ("h200/cuda-runtime-probe-8000m.txt", 8596226048),
        ("h200/routes-hami-core-5091a2f-8000m.txt", 8596226048),
        ("h200/two-holders-host-view.txt", 8512339968),  # two refusals: the last one counts
    ],
)
def test_hami_cores_refusal_is_read(name: str, would_be: int) -> None:
    line = parse.find_out_of_memory(recorded(name))
    assert line is not None
    assert (line.device, line.would_be, line.limit) == (0, would_be, SLICE)
    assert line.line.startswith("[HAMI-core ERROR (pid:")


@pytest.mark.parametrize(
    "name", ["h200/limit-env-removed.txt", "h200/routes-no-hami.txt", "h200/messages.txt"]
)
def test_no_refusal_is_none(name: str) -> None:
    assert parse.find_out_of_memory(recorded(name)) is None


def test_the_loaders_complaint_is_found() -> None:
    complaint = parse.find_preload_error(recorded("h200/messages.txt"))
    assert complaint is not None
    assert complaint.startswith("ERROR: ld.so: object '/nonexistent.so'")
    missing = "true: error while loading shared libraries: libcuda.so.1: cannot open shared object file"
    assert parse.find_preload_error(missing) == missing
    assert parse.find_preload_error(recorded("h200/driver-api-probe.txt")) is None


def test_mixed_streams_lose_hami_cores_lines() -> None:
    text = parse.without_hami_core(recorded("h200/nvidia-smi-limited-8000.txt"))
    assert "HAMI-core" not in text
    assert text.startswith("Tue Dec")
    assert text.splitlines()[1:]
    assert text.rstrip().endswith("+")


def test_cards_of_a_recorded_query() -> None:
    (card,) = parse.parse_cards(recorded("h200/nvidia-smi-query.csv"))
    assert (card.index, card.name, card.memory_mib, card.used_mib, card.free_mib) == (
        0,
        "NVIDIA H200",
        143771,
        0,
        143156,
    )
    assert (card.mig, card.driver, card.compute_cap) == ("Disabled", "580.159.04", "9.0")


def test_cards_without_header_units_or_mig() -> None:
    text = "0, GPU-1, NVIDIA L4, 23034, 1, 22600, [N/A], 580.1.2, 8.9\n1, GPU-2, NVIDIA L4, [N/A], 0, 0, Enabled, 580.1.2, 8.9"
    first, second = parse.parse_cards(text, parse.QUERY_FIELDS)
    assert (first.memory_mib, first.mig, second.mig, second.memory_mib) == (23034, "[N/A]", "Enabled", 0)


def test_cards_in_a_limited_pod() -> None:
    noise = "[HAMI-core Msg(1:2:libvgpu.c:871)]: Initializing.....\n"
    (card,) = parse.parse_cards(f"{noise}index, uuid, memory.total [MiB]\n0, {UUID}, 8000 MiB\n{noise}")
    assert (card.uuid, card.memory_mib, card.free_mib) == (UUID, 8000, None)


@pytest.mark.parametrize("text", ["No devices were found", "index, uuid, memory.total [MiB]\n0, GPU-1"])
def test_what_is_no_table_of_cards(text: str) -> None:
    with pytest.raises(parse.ParseError, match="nvidia-smi"):
        parse.parse_cards(text)


def test_no_card_is_an_empty_table() -> None:
    assert parse.parse_cards("index, uuid, memory.total [MiB]\n") == ()


def test_kernel_module() -> None:
    assert parse.parse_kernel_module(recorded("h200/messages.txt")) == "580.159.04"
    closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024"
    assert parse.parse_kernel_module(closed) == "535.183.01"
    assert parse.parse_kernel_module("") is None


def test_only_variables_about_the_card_are_kept() -> None:
    kept = parse.gpu_environment(recorded("lab/environment.txt") + "PASSWORD=secret\nLD_PRELOAD=x=y\nCUDA\n")
    assert kept["CUDA_DEVICE_MEMORY_LIMIT_0"] == "8000m"
    assert kept["LD_PRELOAD"] == "x=y"
    assert "PASSWORD" not in kept
    assert "CUDA" not in kept


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/usr/local/vgpu/libvgpu.so\n", "/usr/local/vgpu/libvgpu.so"),
        ("/lib/other.so:/usr/local/vgpu/libvgpu.so", "/usr/local/vgpu/libvgpu.so"),
        ("# /usr/local/vgpu/libvgpu.so\n", None),
        ("/usr/local/vgpu/notlibvgpu.so", None),
        ("", None),
    ],
)
def test_preload_file(text: str, path: str | None) -> None:
    assert parse.preload_names_hami_core(text) == path


RESULT = '{"refused": true, "allocated_mib": 7424, "rc": 2, "error": null, "chunk_mib": 256, "cap_mib": 8704}'


def test_probe_output_among_other_lines() -> None:
    result = parse.parse_probe(f"cudaMalloc refused after 7424 MiB\n[1, 2]\n{RESULT}\n{{}}\nbye")
    assert (result.measured, result.refused, result.allocated_mib, result.rc) == (True, True, 7424, 2)


def test_probe_that_could_not_measure() -> None:
    result = parse.parse_probe(
        RESULT.replace("null", '"libcuda.so.1 cannot be loaded"').replace("true", "false")
    )
    assert (result.measured, result.error) == (False, "libcuda.so.1 cannot be loaded")


@pytest.mark.parametrize(
    "text", ["", "Killed", '{"refused": true}', '{"refused": true, "allocated_mib": "many"}']
)
def test_probe_output_without_a_result(text: str) -> None:
    with pytest.raises(parse.ParseError, match="probe output"):
        parse.parse_probe(text)


@pytest.mark.parametrize(
    ("reason", "message", "code", "subject"),
    [
        ("FilteringFailed", f"1 nodes CardInsufficientMemory({NODE})", "card-memory", NODE),
        ("FilteringFailed", "2 nodes CardInsufficientMemory(a,b)", "card-memory", "a,b"),
        ("FilteringFailed", "1 nodes CardUuidMismatch(n)", "card-uuid", "n"),
        ("FilteringFailed", "1 nodes CardNotHealth(n)", "card-unhealthy", "n"),
        ("FilteringFailed", "no available node, 1 nodes do not meet", "unfit", ""),
        ("FailedScheduling", "0/1 nodes are available: 1 NodeUnfitPod.", "unfit", ""),
        ("FailedScheduling", "0/1 nodes are available: 1 node unregistered.", "unregistered", ""),
        (
            "FailedScheduling",
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpumem.",
            "webhook-missed",
            "",
        ),
        ("FailedScheduling", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "no-gpu", ""),
        ("FailedScheduling", "1 node(s) didn't match Pod's node affinity/selector.", "labels", ""),
        ("BindingFailed", "node x has been locked within 5m0s", "node-locked", ""),
        ("UnexpectedAdmissionError", "no binding pod found on node n", "bypassed", ""),
        ("UnexpectedAdmissionError", "something new", "admission", ""),
        ("Failed", 'Failed to pull image "x"', "image", ""),
        (
            "FilteringSucceed",
            f"find fit node({NODE}), 0 nodes not fit, 1 nodes fit({NODE}:0.00)",
            "filtered",
            NODE,
        ),
        ("BindingSucceed", f"Successfully binding node [{NODE}] to default/hami-share-a", "bound", NODE),
        ("Scheduled", f"Successfully assigned default/hami-share-a to {NODE}", "scheduled", NODE),
        ("Pulled", "Container image already present", "other", ""),
    ],
)
def test_events_are_read(reason: str, message: str, code: str, subject: str) -> None:
    reading = parse.read_event(Event(reason, "hami-scheduler", message))
    assert (reading.code, reading.subject) == (code, subject)
    assert reading.sentence


@settings(deadline=None)
@given(st.text(), st.text())
def test_no_text_breaks_a_reader(text: str, reason: str) -> None:
    parse.read_event(Event(reason, "", text))
    parse.find_out_of_memory(text)
    parse.find_preload_error(text)
    parse.gpu_environment(text)
    parse.parse_handshake(text)
    parse.parse_kernel_module(text)
    longest = 0
    for reader in (parse.parse_registration, parse.parse_allocated, parse.parse_cards, parse.parse_probe):
        try:
            reader(text)
        except parse.ParseError as problem:
            longest = max(longest, len(str(problem)))
    assert longest < 1000
