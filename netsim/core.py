"""Which core carries the frames: the compiled one where it was built, else its twin in Python, which defines it."""

from netsim.count.tally import Tally
from netsim.transport.arrivals import Arrivals
from netsim.transport.frame import Frame
from netsim.transport.gate import Gate
from netsim.transport.spreader import Spreader

__all__ = ["Arrivals", "Frame", "Gate", "Spreader", "Tally"]
