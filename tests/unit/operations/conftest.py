from collections.abc import Iterator

import pytest

from hami_k3s.difference import NOTED
from tests.unit.operations.loopback import Site, serve


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    """What other tests' operations have found on hosts of the same name."""
    NOTED.clear()


@pytest.fixture(scope="session")
def server() -> Iterator[Site]:
    with serve() as site:
        yield site


@pytest.fixture
def site(server: Site) -> Site:
    """A site on the loopback that has nothing yet."""
    server.answers.clear()
    server.asked.clear()
    return server
