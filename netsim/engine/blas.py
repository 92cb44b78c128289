"""The threads of BLAS while networks run: one, since agents' matrices are small and more threads wait for each other.

Most libraries have one number of threads for the whole process; those on OpenMP have one for each thread that calls.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["limited_blas"]


@dataclass
class _Held:
    """What was found, and what the runs that are under way ask for: of the process, or of a thread."""

    before: list[tuple[Any, int]]
    wanted: list[int] = field(default_factory=list)

    def apply(self) -> None:
        """Set what the runs want, or if there is none any more what was found."""
        for library, threads in self.before:
            _set(library, min(self.wanted, default=threads))


_lock = threading.Lock()
_held: dict[int | None, _Held] = {}
# Looking for libraries takes milliseconds: once is enough, until modules are imported that may have brought others.
_libraries: list[Any] = []
_modules = 0


@contextmanager
def limited_blas(threads: int | None) -> Iterator[None]:
    """Let BLAS use so many threads meanwhile; None: as many as it does.

    Runs may overlap, in threads or on one loop: the fewest threads that one of them asks for hold, and the last to
    leave puts things back.
    """
    if threads is None:
        yield
        return
    keys = (None, threading.get_ident())
    with _lock:
        for key in keys:
            held = _held.setdefault(key, _Held([]))
            if not held.wanted:
                held.before = [(each, each.num_threads) for each in _found() if _is_shared(each) == (key is None)]
            held.wanted.append(threads)
            held.apply()
    try:
        yield
    finally:
        with _lock:
            for key in keys:
                _held[key].wanted.remove(threads)
                _held[key].apply()
                if not _held[key].wanted:
                    del _held[key]


def _found() -> list[Any]:
    global _libraries, _modules
    if len(sys.modules) != _modules:
        from threadpoolctl import ThreadpoolController

        _libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        _modules = len(sys.modules)
    return _libraries


def _is_shared(library: Any) -> bool:
    return getattr(library, "threading_layer", None) != "openmp"


def _set(library: Any, threads: int) -> None:
    # threadpoolctl lets only the thread that was first set a number, and silently leaves out the others: a run in a
    # thread of its own, as in a notebook, is to count, too. Afterwards who wants to may be first.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(threads)
    release(force=True)
