"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices here are small: more BLAS threads only wait for each other, on some machines for minutes."""
    with threadpool_limits(limits=1):
        yield
