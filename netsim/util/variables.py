"""Context variables that have a value within a block only."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

__all__ = ["assigned"]

_T = TypeVar("_T")


@contextmanager
def assigned(variable: ContextVar[_T], value: _T) -> Iterator[None]:
    """Context manager that sets a variable for its block, and then restores the value before."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
