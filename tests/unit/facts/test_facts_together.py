"""Several facts in one command: each gets its own lines, and one that says nothing has its default."""

from pathlib import Path

from hami_k3s.facts.binary import Binary
from hami_k3s.facts.files import Digests
from hami_k3s.facts.nvidia import Nvidia
from hami_k3s.facts.together import Parts, Together
from hami_k3s.facts.toolkit import Toolkit
from tests.unit.facts.host_tools import Bin

URL = "https://nvidia.github.io/libnvidia-container"


def test_each_gets_its_own_lines(host: Bin, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    wanted = [
        (Toolkit, {"url": URL, "version": "1.19.1"}),
        (Digests, {"paths": ["/nonexistent"]}),
        (Binary, {"versioned": "/nonexistent/helm v1", "public": str(file)}),
        (Digests, {"paths": [str(file)]}),
        (Nvidia, {}),
    ]
    toolkit, nothing, binary, digests, nvidia = host.read(Together, parts=Parts(wanted))
    assert toolkit == host.read(Toolkit, url=URL, version="1.19.1")
    assert nothing == {}
    assert (binary.there, binary.link) == (False, "file")
    assert digests == host.read(Digests, paths=[str(file)])
    assert list(digests) == [str(file)]
    assert nvidia.message == "command not found"


def test_a_banner_and_no_output_at_all() -> None:
    parts = Parts([(Digests, {"paths": ["/a"]}), (Nvidia, {})])
    fact = Together()
    fact.command(parts=parts)
    assert fact.process(["Welcome", "\x010", "\x017", "x"]) == [{}, Nvidia.default()]
    assert str(parts) == "Digests, Nvidia"
