"""The coders under their older name; they are in `netsim.coders`."""

from netsim.coders.coded import Coder, decoded
from netsim.coders.coded import Encoded as Coded
from netsim.coders.floats import Float
from netsim.coders.qsgd import QSGD
from netsim.coders.quantized import MOST_BITS, Quantized
from netsim.coders.uniform import Uniform

__all__ = ["MOST_BITS", "QSGD", "Coded", "Coder", "Float", "Quantized", "Uniform", "decoded"]
