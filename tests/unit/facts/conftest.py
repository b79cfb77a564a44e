from pathlib import Path

import pytest

from tests.unit.facts.host_tools import Bin


@pytest.fixture
def host(tmp_path: Path) -> Bin:
    """A bare host: the base commands and nothing of ours."""
    return Bin(tmp_path / "bin")
