"""The task that runs of one process share, if they follow each other and learn the same."""

from typing import Any

_LAST: list[tuple[Any, Any]] = []


def last() -> tuple[Any, Any]:
    """Return what the last task is known by, and the task; None and None without one."""
    return _LAST[0] if _LAST else (None, None)


def keep(key: Any, task: Any) -> None:
    """Keep a task in place of the last: two at once may not fit into the memory."""
    _LAST[:] = [(key, task)]


def forget() -> None:
    """Forget the task: a method may have changed it."""
    _LAST.clear()
