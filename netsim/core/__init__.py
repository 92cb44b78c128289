"""The core carries a broadcast from payload to inbox over links that only lose and delay it, and counts the frames.

**The Python twin defines the behaviour**: each class and function of the compiled core (`_core.pyx`) has an equivalent,
its twin, in a Python module of this folder; if they differ, the compiled one is wrong. Both give the same frames,
random draws, counts and trace hash, to the last bit, as tests/netsim/core/test_core.py checks. So change the Python
twin first.

The compiled core is used where it was built, unless the environment variable ``NETSIM_CORE`` is ``python``
(`netsim.util.compiled`).
"""

import netsim.coders  # noqa: F401  registers the coders, so that coded arrays can be decoded
from netsim.core.arrival_queue import ArrivalQueue
from netsim.core.broadcast_path import BroadcastPath
from netsim.core.copies import Copies
from netsim.core.frame import Frame
from netsim.core.round_barrier import RoundBarrier
from netsim.core.tally import Tally
from netsim.core.vectors import add_scaled_difference, add_scaled_sum, add_weighted_rows, added, stacked
from netsim.util.compiled import compiled

__all__ = [
    "NAME",
    "ArrivalQueue",
    "BroadcastPath",
    "Copies",
    "Frame",
    "RoundBarrier",
    "Tally",
    "add_scaled_difference",
    "add_scaled_sum",
    "add_weighted_rows",
    "added",
    "stacked",
]

_core = compiled("core._core")
if _core is not None:
    globals().update({name: getattr(_core, name) for name in __all__ if name != "NAME"})

NAME = "python" if _core is None else "compiled"
"""The core in use: ``compiled`` or ``python``."""
