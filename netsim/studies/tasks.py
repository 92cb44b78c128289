"""The task shared by consecutive runs of a process that learn the same."""

from typing import Any

_LAST: list[tuple[Any, Any]] = []


def last() -> tuple[Any, Any]:
    """Return the key of the last task, and the task; None and None without one."""
    return _LAST[0] if _LAST else (None, None)


def keep(key: Any, task: Any) -> None:
    """Keep a task in place of the last: two at once may not fit into the memory."""
    _LAST[:] = [(key, task)]


def forget() -> None:
    """Forget the task, because a method may have changed it."""
    _LAST.clear()
