"""The task that consecutive runs of a process share if they have the same problem."""

from typing import Any

_LAST: list[tuple[Any, Any]] = []


def last() -> tuple[Any, Any]:
    """Return the key of the last task and that task; (None, None) without one."""
    return _LAST[0] if _LAST else (None, None)


def keep(key: Any, task: Any) -> None:
    """Keep a task in place of the last one, because two tasks may not fit into memory."""
    _LAST[:] = [(key, task)]


def forget() -> None:
    """Forget the task, because a method may have changed it."""
    _LAST.clear()
