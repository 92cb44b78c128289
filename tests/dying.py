"""Kill work before and after each call that changes a folder, and check that repeating the work completes it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = ("replace", "rename", "mkdir", "unlink", "rmdir", "write")


def die_at_each_call(
    folder: Path, work: Callable[[Path], object], files: Callable[[Path], object], entries: Callable[[Path], object]
) -> int:
    """Kill ``work`` before or after each call that changes its folder, then repeat it; return the number of kills.

    After each repetition, the ``files`` and ``entries`` of its folder must equal those of uninterrupted work.
    """
    whole = folder / "whole"
    work(whole)
    assert _child(work, folder / "counted", 0) == 0
    died = 0
    for at in range(1, 1000):
        before = died
        for sign in (1, -1):
            out = folder / f"out{sign * at}"
            died += _child(work, out, sign * at) != 0
            work(out)
            assert files(out) == files(whole), (at, sign)
            assert entries(out) == entries(whole), (at, sign, entries(out))
        if died == before:
            break
    return died


def _child(work: Callable[[Path], object], out: Path, at: int) -> int:
    """Do the work in a child process that dies before call number ``at``, or after call number −``at`` if negative."""
    pid = os.fork()
    if pid == 0:
        calls = [0]
        for name in CALLS:
            setattr(os, name, _dying(getattr(os, name), at, calls))
        work(out)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def _dying(call: Callable[..., Any], at: int, calls: list[int]) -> Callable[..., Any]:
    def wrapped(*words: Any, **more: Any) -> Any:
        calls[0] += 1
        if calls[0] == at:
            os._exit(9)
        result = call(*words, **more)
        if calls[0] == -at:
            os._exit(9)
        return result

    return wrapped
