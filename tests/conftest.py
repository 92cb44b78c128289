"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits

from tests import chromium


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices here are small: more BLAS threads only wait for each other, on some machines for minutes."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Page]:
    """A browser for all tests of a module."""
    if chromium.program() is None:
        pytest.skip("no chromium: apt-get install chromium")
    with chromium.browser() as page:
        page.look(1200, 800)
        yield page
