"""Settings of the process during a run: the garbage collector, BLAS threads, and two warnings.

Runs may overlap, in threads or on one loop: the last one to end restores the settings.
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
# The collector runs only after the run has created this many new objects per agent. Building the links of an agent
# creates fewer, and a round keeps fewer alive.
_OBJECTS_PER_AGENT = 50

# A run begins with a full collection if the number of objects created since the last full collection exceeds _NEW, and
# also exceeds the number of objects that existed after that collection. A quarter of the existing objects, instead of
# all, was too low a limit: collections then took a fifth of the time of many small runs in a notebook.
_NEW = 50_000

_users = 0
_before = (0, 0, 0)
_freezes = True
_new = 0
_most_new = _NEW


@contextmanager
def unhurried_collector(agents: int = 0) -> Iterator[Callable[[], None]]:
    """Collect new objects rarely and existing ones never, because a large run creates many long-lived objects.

    Yields a function to call once the run is built, so that what was built counts as existing.
    """
    global _users, _before, _freezes
    with _lock:
        if not _users:
            _before = gc.get_threshold()
            # Do not freeze if the program froze objects: `gc.unfreeze` would unfreeze the program's objects, too.
            # Counting them takes 8 ms per 100,000, so a program that froze any is taken to keep them frozen.
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
    """Count all objects as existing."""
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
    """Collect the garbage of former runs if there may be much.

    Each run freezes all objects, which resets the collector's counts of new objects, so that in a sequence of short
    runs the collector never starts by itself.
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
    """Numbers of threads of BLAS libraries.

    ``before`` maps each library to its number before the first run; ``wanted`` holds the number requested by each run
    in progress.
    """

    before: list[tuple[Any, int]]
    wanted: list[int] = field(default_factory=list)

    def apply(self) -> None:
        """Set the smallest number that a run requests, or restore the original numbers if no run is left."""
        for library, threads in self.before:
            _set(library, min(self.wanted, default=threads))


_held: dict[int | None, _Held] = {}
_pools: Any = None
_modules = 0


@contextmanager
def limited_blas(threads: int | None) -> Iterator[None]:
    """Let BLAS use ``threads`` threads; None leaves them as they are.

    With the small matrices of agents, further threads mostly wait for each other. In most libraries the number of
    threads holds for the whole process; in libraries based on OpenMP each calling thread has its own number. If runs
    overlap, the smallest of the numbers that they request is set.
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
    """Return threadpoolctl's controller of the loaded libraries, found again when more modules are loaded than ever.

    Finding the libraries takes milliseconds. A sweep imports its study for each point and removes it again, but loads
    no library with it.
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
    # ignores the numbers that other threads set, and runs may be in different threads (in a notebook, for example). So
    # clear the controlling thread before the number is set, and again afterwards, so that any thread can set the next.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(threads)
    release(force=True)


# --- warnings ---------------------------------------------------------------------------------------------------------

_sleep: Callable[[Any], None] = time.sleep
_running = 0
"""Number of runs under way in this process. While it is above 0, a function that warns replaces `time.sleep`."""

_draws: dict[int, int] = {}
"""Maps a thread to how often it called, during runs, a function that draws from a global generator."""


@contextmanager
def warned() -> Iterator[None]:
    """Warn (RuntimeWarning) of two mistakes that raise no error: sleeping in real time, global random numbers.

    Calls of functions that draw global random numbers are counted by thread. Agents run in the calling thread, so calls
    in other threads only, such as Dask's, cause no warning. A call is not counted if the function was imported by name
    before the run, or is a method of the generator object. So if a generator has changed but no call was counted, there
    is a warning, too, because an agent is the likely cause.
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
            stacklevel=9,  # so that the warning names the line that runs the network
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
    # Every function of `random` draws through the method `random` or `getrandbits`, looked up on the generator.
    generator = vars(random)["_inst"]
    yield from ((owner, name) for owner in (generator, random) for name in ("random", "getrandbits"))
    yield from ((random, name) for name in ("seed", "setstate"))
    numpys: Any = np.random.get_state
    methods = (name for name, each in vars(np.random).items() if getattr(each, "__self__", None) is numpys.__self__)
    yield from ((np.random, name) for name in (*methods, "seed", "ranf", "sample") if name != "get_state")


_HOOKS = [(owner, name, vars(owner).get(name), _noted(getattr(owner, name))) for owner, name in _drawing_functions()]
"""For each function that draws from a global generator: the object that holds the function, the function's name, the
value of this name in the ``__dict__`` of the object (None if it has none), and a wrapper that counts calls.
"""


def _hook() -> None:
    for owner, name, original, noted in _HOOKS:
        # Leave a function alone if a program has replaced it.
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
