"""Which core carries the frames: the compiled one where it was built, else its twin in Python, which defines it.

The environment variable ``NETSIM_CORE`` chooses (`netsim._compiled`). What happens in a run is the same with either.
"""

from netsim._compiled import compiled
from netsim.count.tally import Tally
from netsim.transport.arrivals import Arrivals
from netsim.transport.copies import Copies
from netsim.transport.frame import Frame
from netsim.transport.gate import Gate
from netsim.transport.spreader import Spreader
from netsim.vectors import add_scaled_difference, add_scaled_sum, add_weighted_rows, added, stacked

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

_core = compiled("_core")
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
