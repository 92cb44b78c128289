"""What a run warns of once, for it is a mistake that no error shows: agents that sleep in real time, or draw random
numbers that are not theirs."""

import asyncio
import math
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from netsim.clock.clock import Loop

__all__ = ["warned"]

_GUARD = threading.Lock()
_sleep: Callable[[Any], None] = time.sleep
_running = 0
"""How many runs are under way in this process: until the last has ended, `time.sleep` is the one that warns."""


@contextmanager
def warned() -> Iterator[None]:
    """Warn, with `RuntimeWarning`, of agents of the run in this block that do either."""
    before = _drawn()
    _count(1)
    try:
        yield
    finally:
        _count(-1)
    if _drawn() != before:
        warnings.warn(
            "random numbers were drawn from the global generator of random or numpy.random during the run: draw from "
            "self.rng, so that the same seed is the same run, whatever else draws",
            RuntimeWarning,
            stacklevel=6,  # the line that runs the network
        )


def _drawn() -> tuple[Any, ...]:
    """Return the states of the global generators."""
    state: Any = np.random.get_state(legacy=True)  # noqa: NPY002  nothing is drawn
    return random.getstate(), state[0], state[1].tobytes(), state[2:]


def _count(more: int) -> None:
    global _running, _sleep
    with _GUARD:
        if _running == 0:
            _sleep = time.sleep
        _running += more
        time.sleep = _sleep_and_warn if _running else _sleep


def _sleep_and_warn(seconds: Any, /) -> None:
    loop = asyncio._get_running_loop()
    if isinstance(loop, Loop) and loop.instants.speed == math.inf:
        warnings.warn(
            f"time.sleep({seconds!r}) in an agent takes no simulated time and holds up all agents: "
            "await asyncio.sleep(…)",
            RuntimeWarning,
            stacklevel=2,
        )
    _sleep(seconds)
