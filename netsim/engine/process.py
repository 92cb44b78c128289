"""Settings of the process during a run: the garbage collector, BLAS threads, and two warnings.

Runs may overlap in time, in several threads or on one loop; the last run to end restores the settings.
"""

import asyncio
import functools
import gc
import math
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netsim.clock.clock import Loop

__all__ = ["limited_blas", "thread_pools", "unhurried_collector", "warned"]

_lock = threading.Lock()

# --- the garbage collector --------------------------------------------------------------------------------------------

_THRESHOLD = 50_000
# The collector runs only after the run has created this many new objects per agent. This is more than building an
# agent's links creates, and more than a round keeps alive.
_OBJECTS_PER_AGENT = 50

# A run begins with a full collection if the number of objects created since the last full collection exceeds both _NEW
# and the number of objects that existed after that collection. A limit of a quarter of the existing objects was too
# low: collections then took a fifth of the time of many small runs in a notebook.
_NEW = 50_000

_users = 0
_before = (0, 0, 0)
_freezes = True
_new = 0
_most_new = _NEW


@contextmanager
def unhurried_collector(agents: int = 0) -> Iterator[Callable[[], None]]:
    """Collect new objects rarely and existing ones never, because a large run creates many long-lived objects.

    Yields a function to call after the run is built, so that the objects built count as existing objects.
    """
    global _users, _before, _freezes
    with _lock:
        if not _users:
            _before = gc.get_threshold()
            # Do not freeze if the program has frozen objects: `gc.unfreeze` would unfreeze the program's objects, too.
            # Counting frozen objects takes 8 ms per 100,000, so assume that they stay frozen, and do not count again.
            _freezes = _freezes and not gc.get_freeze_count()
            if _new:
                _count_new()
                _collect_now_and_then()
        gc.set_threshold(max(gc.get_threshold()[0], _THRESHOLD, _OBJECTS_PER_AGENT * agents), *_before[1:])
        _users += 1
        if _freezes:
            gc.freeze()
    try:
        yield _keep_all
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _count_new()
                gc.set_threshold(*_before)
                if _freezes:
                    gc.unfreeze()


def _keep_all() -> None:
    """Exclude all objects that exist now from collections."""
    with _lock:
        if _freezes:
            _count_new()
            gc.freeze()


def _count_new() -> None:
    """Add the collector's count of new objects to `_new`, because freezing resets the collector's count."""
    global _new
    (youngest, younger, _), (new, collections, older) = gc.get_threshold(), gc.get_count()
    _new += new + youngest * (collections + younger * older)


def _collect_now_and_then() -> None:
    """Collect the garbage of earlier runs, if there may be much of it.

    Each run freezes all objects, which resets the collector's counts of new objects. So in a sequence of short runs the
    collector would never start by itself.
    """
    global _new, _most_new
    if _new > _most_new and _freezes and gc.isenabled():
        gc.collect()
        gc.freeze()
        _new, _most_new = 0, max(_NEW, gc.get_freeze_count())
        gc.unfreeze()


# --- threads of BLAS --------------------------------------------------------------------------------------------------


@dataclass
class _Held:
    """The thread counts of BLAS libraries, while runs limit them.

    ``before`` holds each library with its thread count before the first run; ``wanted`` holds the thread count
    requested by each run in progress.
    """

    before: list[tuple[Any, int]]
    wanted: list[int] = field(default_factory=list)

    def apply(self) -> None:
        """Set the smallest requested thread count or, if no run is left, restore the original thread counts."""
        for library, threads in self.before:
            _set(library, min(self.wanted, default=threads))


_held: dict[int | None, _Held] = {}
_pools: Any = None
_modules = 0


@contextmanager
def limited_blas(threads: int | None) -> Iterator[None]:
    """Limit BLAS to ``threads`` threads; None leaves the number of threads unchanged.

    With the small matrices of agents, more threads mostly wait for each other. In most libraries the number of threads
    applies to the whole process; libraries based on OpenMP have a separate number for each calling thread. If runs
    overlap, the smallest requested number applies.
    """
    if threads is None:
        yield
        return
    keys = (None, threading.get_ident())
    with _lock:
        for key in keys:
            held = _held.setdefault(key, _Held([]))
            if not held.wanted:
                held.before = [
                    (each, each.num_threads) for each in blas_libraries() if _is_shared(each) == (key is None)
                ]
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


def thread_pools() -> Any:
    """Return threadpoolctl's controller of the loaded libraries; search again only if more modules are loaded.

    Finding the libraries takes milliseconds. The comparison is with the highest number of modules so far: a sweep
    imports its study for each point and removes it again, but loads no library by that.
    """
    global _pools, _modules
    if len(sys.modules) > _modules:
        from threadpoolctl import ThreadpoolController

        _pools = ThreadpoolController()
        _modules = len(sys.modules)
    return _pools


def blas_libraries() -> list[Any]:
    """Return threadpoolctl's controllers of the loaded BLAS libraries."""
    libraries: list[Any] = thread_pools().select(user_api="blas").lib_controllers
    return libraries


def _is_shared(library: Any) -> bool:
    return getattr(library, "threading_layer", None) != "openmp"


def _set(library: Any, threads: int) -> None:
    # The first thread that sets OpenBLAS's number of threads becomes its "controlling thread". threadpoolctl silently
    # ignores numbers set by other threads, and runs may be in different threads (in a notebook, for example). So clear
    # the controlling thread before the number is set, and again afterwards, so that any thread can set the next.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(threads)
    release(force=True)


# --- warnings ---------------------------------------------------------------------------------------------------------

_sleep: Callable[[Any], None] = time.sleep
_running = 0
"""Number of runs under way in this process. While it is above 0, `time.sleep` is replaced by a function that warns."""

_draws: dict[int, int] = {}
"""{thread id: number of calls, during runs, of functions that draw from a global generator}."""


@contextmanager
def warned() -> Iterator[None]:
    """Warn (RuntimeWarning) of two mistakes that raise no error: real-time sleeps and global random numbers.

    Calls of functions that draw global random numbers are counted for each thread. Agents run in the calling thread, so
    if only other threads, such as Dask's, made calls, there is no warning. A call is not counted if the function was
    imported by name before the run, or is a method of the generator object. So there is also a warning if a generator
    has changed but no call was counted: an agent is the likely cause.
    """
    thread = threading.get_ident()
    _count(1)
    before, here, seen = _drawn(), _draws.get(thread, 0), _seen()
    try:
        yield
    finally:
        here, seen = _draws.get(thread, 0) - here, _seen() - seen
        has_drawn = _drawn() != before
        _count(-1)
    if has_drawn and (here or not seen):
        warnings.warn(
            "random numbers were drawn from the global generator of random or numpy.random during the run: draw from "
            "self.rng, so that the same seed is the same run, whatever else draws",
            RuntimeWarning,
            stacklevel=9,  # Let the warning name the line that runs the network.
        )


def _seen() -> int:
    # Copy to a list first, because other threads may add to the dict meanwhile.
    return sum(list(_draws.values()))


def _noted(function: Any) -> Any:
    @functools.wraps(function)
    def draw(*args: Any, **settings: Any) -> Any:
        thread = threading.get_ident()
        _draws[thread] = _draws.get(thread, 0) + 1
        return function(*args, **settings)

    return draw


def _drawing_functions() -> Iterator[tuple[Any, str]]:
    """Yield (holder, name) of each function that draws from a global generator, or sets its state."""
    # Every function of `random` looks up the method `random` or `getrandbits` on the generator, and draws with it.
    generator = vars(random)["_inst"]
    yield from ((owner, name) for owner in (generator, random) for name in ("random", "getrandbits"))
    yield from ((random, name) for name in ("seed", "setstate"))
    numpys: Any = np.random.get_state
    methods = (name for name, each in vars(np.random).items() if getattr(each, "__self__", None) is numpys.__self__)
    yield from ((np.random, name) for name in (*methods, "seed", "ranf", "sample") if name != "get_state")


_HOOKS = [(owner, name, vars(owner).get(name), _noted(getattr(owner, name))) for owner, name in _drawing_functions()]
"""For each function that draws from a global generator: the object that holds the function, the function's name, the
object's ``__dict__`` entry of this name (None if absent), and a wrapper that counts calls.
"""


def _hook() -> None:
    for owner, name, original, noted in _HOOKS:
        # Do not touch a function that the program has replaced.
        if vars(owner).get(name) is original:
            setattr(owner, name, noted)


def _unhook() -> None:
    for owner, name, original, noted in _HOOKS:
        if vars(owner).get(name) is noted:
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
    _draws.clear()


def _drawn() -> tuple[Any, ...]:
    """Return the states of the global generators."""
    state: Any = np.random.get_state(legacy=True)  # noqa: NPY002  nothing is drawn
    return random.getstate(), state[0], state[1].tobytes(), state[2:]


def _count(more: int) -> None:
    global _running, _sleep
    with _lock:
        if _running == 0:
            _sleep = time.sleep
            _hook()
        _running += more
        if _running == 0:
            _unhook()
        time.sleep = _sleep_and_warn if _running else _sleep


def _sleep_and_warn(seconds: Any, /) -> None:
    loop = asyncio._get_running_loop()
    if isinstance(loop, Loop) and loop.clock.pace == math.inf:
        warnings.warn(
            f"time.sleep({seconds!r}) in an agent takes no simulated time and holds up all agents: "
            "await asyncio.sleep(…)",
            RuntimeWarning,
            stacklevel=2,
        )
    _sleep(seconds)
