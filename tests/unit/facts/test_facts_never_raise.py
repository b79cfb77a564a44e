"""A fact that raises ends the run for every host: whatever a probe prints, the answer is a value."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_k3s.facts import batch, cluster, hami, helm, host, k3s, nvidia, reset, toolkit
from hami_k3s.facts.sources import Source
from tests.unit.facts.answers import answered

ODD = (
    *(
        "",
        " ",
        "0",
        "3",
        "null",
        "true",
        "[]",
        "{}",
        '""',
        "[3]",
        "[[]]",
        "x",
        "a b c",
        "a: b",
        "=",
        "\n\n",
        "\x00",
        "é",
    ),
    *(
        '{"items": null}',
        '{"items": 3}',
        '{"items": []}',
        '{"kind": "Node"',
        "<html>\nlogin\n</html>",
        "Error: refused",
    ),
    *("version = 3\nplugins = 3", "version = []", "[plugins.'io.containerd.cri.v1.runtime']\ncontainerd = 1"),
    *(
        "k3s version",
        "ActiveState=active\nMainPID=\nNRestarts=x",
        "index, uuid, memory.total [MiB]\n0, GPU-1, [N/A]",
    ),
)
SOURCES = (Source("key", "https://x.example/gpgkey", "toolkit_repository_url"),)
PARSERS: dict[str, tuple[Callable[[list[str]], object], list[str]]] = {
    "hami": (hami.parse, [*hami.PROBES, *hami.paths("hami", "kube-system"), *hami.DRY_RUN]),
    "helm": (helm.parse, [*helm.PROBES, *helm.paths("hami", "kube-system")]),
    "host": (lambda lines: host.parse(lines, SOURCES), list(host.probes(wanted=SOURCES))),
    "cluster": (cluster.parse, [*cluster.PROBES, *cluster.PATHS]),
    "k3s": (k3s.parse, [*k3s.PROBES, *k3s.MEMBER, *k3s.SERVER, *k3s.API]),
    "nvidia": (lambda lines: nvidia.state(batch.parse(lines)), list(nvidia.PROBES)),
    "reset": (
        lambda lines: reset.parse(lines, "a=b"),
        [*reset.PROBES, *reset.paths("hami", "kube-system", "a=b")],
    ),
    "toolkit": (toolkit.parse, list(toolkit.probes("https://x.example", "1.19.1"))),
}
ANSWER = st.one_of(
    st.none(), st.tuples(st.one_of(st.sampled_from(ODD), st.text()), st.sampled_from([0, 0, 0, 1]))
)


@pytest.mark.parametrize("name", PARSERS)
def test_each_odd_text_everywhere(name: str) -> None:
    parse, probes = PARSERS[name]
    for odd in ODD:
        parse(answered(dict.fromkeys(probes, odd)))


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_any_mixture(name: str, data: st.DataObject) -> None:
    parse, probes = PARSERS[name]
    parse(answered({probe: data.draw(ANSWER) for probe in probes}))
