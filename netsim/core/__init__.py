"""A broadcast's way from payload to inbox, and its counting: compiled where it was built, else in Python.

**The twin defines it**: each class and function of ``_core.pyx`` has a twin in Python in a module beside it. Both give
the same frames, draws, counts and hash, which laws test; where they differ, the compiled one is wrong. The environment
variable ``NETSIM_CORE`` chooses (`netsim.util.compiled`).
"""

import netsim.coders  # noqa: F401  coded arrays that arrive can be decoded, whoever sent them
from netsim.core.arrivals import Arrivals
from netsim.core.copies import Copies
from netsim.core.frame import Frame
from netsim.core.gate import Gate
from netsim.core.spreader import Spreader
from netsim.core.tally import Tally
from netsim.core.vectors import add_scaled_difference, add_scaled_sum, add_weighted_rows, added, stacked
from netsim.util.compiled import compiled

__all__ = [
    "NAME",
    "Arrivals",
    "Copies",
    "Frame",
    "Gate",
    "Spreader",
    "Tally",
    "add_scaled_difference",
    "add_scaled_sum",
    "add_weighted_rows",
    "added",
    "stacked",
]

_core = compiled("core._core")
if _core is not None:
    Arrivals, Copies, Frame, Gate, Spreader, Tally = (  # type: ignore[misc]
        _core.Arrivals,
        _core.Copies,
        _core.Frame,
        _core.Gate,
        _core.Spreader,
        _core.Tally,
    )
    add_scaled_difference, add_scaled_sum = _core.add_scaled_difference, _core.add_scaled_sum
    add_weighted_rows, added, stacked = _core.add_weighted_rows, _core.added, _core.stacked

NAME = "python" if _core is None else "compiled"
"""``compiled`` or ``python``."""
