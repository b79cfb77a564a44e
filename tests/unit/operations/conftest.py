from collections.abc import Iterator

import pytest

from tests.unit.operations.loopback import Site, serve


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
