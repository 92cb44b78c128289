"""Coders of vectors and matrices, which send fewer than 64 bits per element.

In the path agent → outbox → link → inbox → agent, an agent encodes a vector and gives the coded array to the outbox,
which asks the coded array for its bytes and payload bits. docs/coders.md has a table of all coders, and shows how to
write a coder.
"""

from netsim.coders.feedback import ErrorFeedback
from netsim.coders.floats import Exact, Float, Floats
from netsim.coders.lowrank import Factors, LowRank
from netsim.coders.natural import Natural, Powers
from netsim.coders.parts import InParts, Several
from netsim.coders.qsgd import QSGD, NormLevels
from netsim.coders.quantized import MOST_BITS, Quantized
from netsim.coders.residues import Residues
from netsim.coders.sign import Sign, Signs
from netsim.coders.sparse import RandomK, Sparse, TopK
from netsim.coders.ternary import Ternary, Trits
from netsim.coders.uniform import FixedRange, MessageRange, Uniform
from netsim.wire.coded import Coded, Coder, Encoded, decoded
from netsim.wire.packing import check_shape, pack_shape, unpack_elements, unpack_shape
from netsim.wire.registry import enter, register

__all__ = [
    "MOST_BITS",
    "QSGD",
    "Coded",
    "Coder",
    "Encoded",
    "ErrorFeedback",
    "Exact",
    "Factors",
    "FixedRange",
    "Float",
    "Floats",
    "InParts",
    "LowRank",
    "MessageRange",
    "Natural",
    "NormLevels",
    "Powers",
    "Quantized",
    "RandomK",
    "Residues",
    "Several",
    "Sign",
    "Signs",
    "Sparse",
    "Ternary",
    "TopK",
    "Trits",
    "Uniform",
    "check_shape",
    "decoded",
    "pack_shape",
    "register",
    "unpack_elements",
    "unpack_shape",
]

# Never change the meaning of a type number, because files of older runs contain the numbers.
enter(5, Quantized, FixedRange, MessageRange, NormLevels)  # type: ignore[type-abstract]
enter(6, Floats)
enter(7, Sparse)
enter(8, Signs)
enter(9, Trits)
enter(10, Residues)
enter(11, Several)
# Do not use the numbers 12 and 15: netsim.wire.codec uses them for named payloads and for frames of several links.
enter(13, Powers)
enter(14, Factors)
