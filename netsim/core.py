"""Which core carries the frames: the compiled one where it was built, else its twin in Python, which defines it.

The environment variable ``NETSIM_CORE`` chooses: ``python``, ``compiled`` (an error if it was not built), or, left
empty, the compiled one if it is there. What happens in a run is the same with either.
"""

import os

from netsim.count.tally import Tally
from netsim.errors import BadInput
from netsim.transport.arrivals import Arrivals
from netsim.transport.copies import Copies
from netsim.transport.frame import Frame
from netsim.transport.gate import Gate
from netsim.transport.spreader import Spreader
from netsim.vectors import add_scaled_difference, add_scaled_sum

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
]

NAME = "python"
"""``compiled`` or ``python``."""

_wanted = os.environ.get("NETSIM_CORE", "")
if _wanted not in ("", "python", "compiled"):
    raise BadInput(f"NETSIM_CORE = {_wanted!r}: must be python, compiled or empty")
if _wanted != "python":
    try:
        import netsim._core as _core
    except ImportError as error:
        if _wanted == "compiled":
            raise BadInput(
                f"NETSIM_CORE = 'compiled': must have been built when netsim was installed ({error})"
            ) from None
    else:
        NAME = "compiled"
        Arrivals, Copies, Frame, Gate, Spreader, Tally = (  # type: ignore[misc]
            _core.Arrivals,
            _core.Copies,
            _core.Frame,
            _core.Gate,
            _core.Spreader,
            _core.Tally,
        )
        add_scaled_difference, add_scaled_sum = _core.add_scaled_difference, _core.add_scaled_sum
