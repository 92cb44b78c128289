"""Random payloads and hostile bytes for the wire format, checked against the promises of docs/links.md.

Every function draws from a `random.Random`. To repeat a seed, call ``check_one(random.Random(seed))``.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import msgpack
import numpy as np

from netsim.coders import (
    QSGD,
    Coded,
    Coder,
    Exact,
    Float,
    Floats,
    InParts,
    LowRank,
    Natural,
    RandomK,
    Residues,
    Sign,
    Sparse,
    Ternary,
    TopK,
    Uniform,
    register,
)
from netsim.core.frame import FrameEncoder
from netsim.core.framing import decode_frame
from netsim.errors import WireError
from netsim.wire import registry
from netsim.wire.codec import decode, encode, is_mutable, payload_bits
from netsim.wire.payloads import MOST_NESTED

Rng = random.Random

NAMES = ("a", "b", "c")

MOST_DIMENSIONS = 32
"""Arrays with more dimensions are not compared by field, which may add dimensions beyond numpy's limit of 64."""

DTYPES = ("<f8", "<f4", ">f8", "<f2", "<i8", "|u1", "|b1", "<c16", "|S3", "<U2", "<M8[7D]", "<m8[ns]", "|V5", "<f16")


def same(a: Any, b: Any) -> bool:
    """Return whether two payloads agree in type and in every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.longdouble | np.clongdouble):
        # Compared as text, because unused bytes have arbitrary content.
        return repr(a) == repr(b)
    if isinstance(a, np.ndarray | np.void) and a.dtype.names is not None:
        # Compared field by field from here on, because padding between fields has arbitrary content.
        if a.dtype != b.dtype or a.shape != b.shape or not a.nbytes or a.ndim > MOST_DIMENSIONS:
            return bool(a.dtype == b.dtype and a.shape == b.shape)
        return all(same(np.asarray(a)[name], np.asarray(b)[name]) for name in a.dtype.names)
    if isinstance(a, np.ndarray | np.generic):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    return bool(a == b)


# --- payloads ---------------------------------------------------------------------------------------------------------


def any_float(rng: Rng) -> float:
    """Return a double with a random bit pattern, or a value that is likely to be an edge case."""
    if rng.random() < 0.5:
        return float(struct.unpack("<d", rng.randbytes(8))[0])
    return rng.choice((0.0, -0.0, 1.0, 5e-324, 1.7e308, float("inf"), float("-inf"), float("nan"), 2.0**53))


def any_int(rng: Rng) -> int:
    """Return an integer of up to 64 bits, in half of the cases near a size limit of msgpack's formats."""
    near = rng.choice((0, 32, 127, 128, 255, 2**15, 2**16, 2**31, 2**32, 2**63)) + rng.randint(-2, 2)
    number = rng.choice((near, -near, rng.getrandbits(rng.randint(1, 64))))
    return min(max(number, -(2**63)), 2**64 - 1)


def any_text(rng: Rng) -> str:
    """Return a text of up to 40 random Unicode characters."""
    return "".join(chr(rng.choice((rng.randint(0, 0x7F), rng.randint(0, 0xD7FF), rng.randint(0xE000, 0x10FFFF))))
                   for _ in range(rng.choice((0, 1, 3, 31, 32, 40))))  # fmt: skip


def any_bytes(rng: Rng) -> bytes:
    """Return up to 300 random bytes."""
    return rng.randbytes(rng.choice((0, 1, 5, 255, 256, 300)))


def any_dtype(rng: Rng) -> np.dtype[Any]:
    """Return a dtype of plain data: a simple one, or a structure of two fields, one of which is an array."""
    if rng.random() < 0.85:
        return np.dtype(rng.choice(DTYPES))
    inner = (
        np.dtype([("x", rng.choice(DTYPES))], align=rng.random() < 0.5) if rng.random() < 0.3 else rng.choice(DTYPES)
    )
    shape = tuple(rng.randint(0, 2) for _ in range(rng.randint(0, 2)))
    return np.dtype([("a", rng.choice(DTYPES)), ("é b", inner, shape)], align=rng.random() < 0.5)


def any_array(rng: Rng) -> np.ndarray[Any, Any]:
    """Return an array of random bits with up to three dimensions, sometimes empty or not contiguous."""
    dtype, shape = any_dtype(rng), tuple(rng.choice((0, 1, 2, 3, 5)) for _ in range(rng.randint(0, 3)))
    count = int(np.prod(shape, dtype=int))
    array = np.ndarray(shape, dtype, rng.randbytes(count * dtype.itemsize))
    return array.T[::-1] if array.ndim and rng.random() < 0.2 else array


def any_scalar(rng: Rng) -> Any:
    """Return a numpy scalar, but no text (numpy cuts trailing zeros) and no long double (it has unused bits)."""
    if rng.random() < 0.1:
        return np.frombuffer(rng.randbytes(5), rng.choice(("V5", [("a", "<i2"), ("b", "S3")])))[0]
    return any_number(rng)


def any_number(rng: Rng) -> Any:
    """Return a numpy scalar that can be a key of a dict."""
    dtype = rng.choice([name for name in DTYPES if name[1:] not in ("S3", "U2", "V5", "f16")])
    number = np.frombuffer(rng.randbytes(np.dtype(dtype).itemsize), dtype)[0]
    try:
        hash(number)
    except OverflowError:
        # Since numpy 2.5 a date outside the range of `datetime` has no hash.
        return number.astype("<i8")
    return number


@register(127)
@dataclass(frozen=True)
class Moody(Coded):
    """A user's type without checks: errors in its `unpack` depend on the bytes."""

    shape: tuple[int, ...]
    data: bytes

    @property
    def payload_bits(self) -> int:
        return 8 * len(self.data)

    def pack(self) -> bytes:
        return bytes((0, *self.shape)) + self.data

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        errors: tuple[Any, ...] = (
            ValueError("two\nlines"), KeyError, StopIteration, RecursionError, MemoryError, AssertionError, OSError,
            UnicodeDecodeError("x", b"", 0, 1, ""), ZeroDivisionError, NotImplementedError, WireError("no"),
            ExceptionGroup,
        )  # fmt: skip
        if 0 < data[0] <= len(errors):
            error = errors[data[0] - 1]
            raise ExceptionGroup("several", [ValueError()]) if error is ExceptionGroup else error
        if data[0] == 100:
            return None  # type: ignore[return-value]
        if data[0] == 101:
            return Floats(16, (1,), b"00")  # type: ignore[return-value]
        if data[0] == 102:
            return cls.unpack(data)
        assert data[0] == 0
        assert data[1] == len(data) - 2
        return cls((data[1],), data[2:])

    def decode(self) -> Any:
        return np.frombuffer(self.data, np.uint8)


CODED = {kind: number for kind, number in registry.NUMBERS.items() if number < registry.FIRST or kind is Moody}
"""The coded types that are drawn, with their numbers."""


def any_vector(rng: Rng) -> Any:
    """Return a vector or matrix of numbers in float32's range, or an empty one."""
    lengths = (0, 1, 2, 7, 20, 140)
    shape = (rng.choice(lengths), rng.choice(lengths)) if rng.random() < 0.4 else (rng.choice(lengths),)
    draws = np.random.default_rng(rng.getrandbits(32))
    return draws.normal(size=shape) * 10.0 ** rng.randint(-30, 30) * (rng.random() < 0.9)


def any_coder(rng: Rng, by_row: bool) -> Coder:
    """Return a random coder for numbers in float32's range; if ``by_row``, possibly one for matrices only."""
    bits = rng.randint(1, 16)
    if by_row:
        return rng.choice((QSGD, Uniform))(bits, by_row=True)
    return rng.choice((QSGD(bits), Uniform(bits), Uniform(bits, -1.0, 2.0), Sign(), Ternary(), Natural()))


def any_coded(rng: Rng) -> Coded:
    """Return a coded vector or matrix of a random registered type."""
    vector, draws = any_vector(rng), np.random.default_rng(rng.getrandbits(32))
    way = rng.random()
    if way < 0.1:
        return Floats.of(vector.astype(rng.choice(("f8", "f4"))))
    if way < 0.15:
        data = rng.randbytes(rng.randint(0, 20))
        return Moody((len(data),), data)
    if way < 0.2:
        widths = [rng.randint(1, 48), *(rng.randint(0, 48) for _ in range(rng.randint(0, 2)))]
        parts = [draws.integers(-(2**50), 2**50, vector.size) for _ in widths]
        return Residues.of(parts, widths, whole=rng.random() < 0.3)
    by_row = vector.ndim == 2 and rng.random() < 0.4
    coder = any_coder(rng, by_row)
    if vector.ndim == 2 and rng.random() < 0.2:
        coder = LowRank(1, rng.choice((Float(32), QSGD(5), Natural())))
    elif way < 0.5:
        part = rng.choice((Exact(), Float(32), any_coder(rng, False)))
        k = rng.choice((1, 2, 6, 19, 200))
        coder = rng.choice((TopK(k, part), RandomK(k, part, unbiased=rng.random() < 0.3)))
    if len(vector) % 2 == 0 and rng.random() < 0.15:
        coder = InParts(coder, 2)
    elif vector.size > 1 and not by_row and rng.random() < 0.1:
        coder, vector = InParts(coder, {"a": (1,), "b": (1, vector.size - 1)}), vector.ravel()
    coded = coder.encode(vector, draws)
    # The low-rank coder returns a plain array where its coded form would have no fewer elements.
    return coded if isinstance(coded, Coded) else Floats.of(coded)


def any_key(rng: Rng) -> Any:
    """Return a random valid key of a dict."""
    make = rng.choice((any_int, any_text, any_bytes, any_float, any_number, lambda rng: None, lambda rng: True))
    return make(rng) if rng.random() < 0.8 else (make(rng), (any_key(rng),))


LEAVES: tuple[Callable[[Rng], Any], ...] = (
    any_float,
    any_int,
    any_text,
    any_bytes,
    any_array,
    any_array,
    any_scalar,
    any_coded,
    any_coded,
    lambda rng: rng.choice((None, True, False)),
    lambda rng: complex(any_float(rng), any_float(rng)),
)


def payload(rng: Rng, room: int = MOST_NESTED) -> Any:
    """Return a random payload that the documentation allows, with containers nested at most ``room`` deep."""
    if room <= 0 or rng.random() < 0.6:
        return rng.choice(LEAVES)(rng)
    if rng.random() < 0.02:
        value = payload(rng, 0)
        for _ in range(rng.randint(1, room)):
            value = rng.choice(([value], (value,), {1: value}))
        return value
    # Keys may be nested tuples.
    inner = min(room - 1, 4)
    items = [payload(rng, inner) for _ in range(rng.choice((0, 1, 2, 3, 17)))]
    kind = rng.choice("ltd" if room > 3 else "lt")
    return items if kind == "l" else tuple(items) if kind == "t" else {any_key(rng): item for item in items}


# --- hostile bytes ----------------------------------------------------------------------------------------------------


def claim(rng: Rng, code8: int | None, code16: int, code32: int, length: int) -> bytes:
    """Return a msgpack header of a random size that claims a length, often a wrong one."""
    if rng.random() < 0.3:
        length = rng.choice((0, 1, 2, 255, 256, 65535, 10**6, 10**8, 2**31, 2**32 - 1))
    if code8 is not None and length < 256 and rng.random() < 0.6:
        return bytes((code8, length))
    if length < 65536 and rng.random() < 0.6:
        return struct.pack(">BH", code16, length)
    return struct.pack(">BI", code32, length)


def token(rng: Rng, room: int = 3) -> bytes:
    """Return a piece of msgpack, well-formed or with a wrong length."""
    kind = rng.randint(0, 9)
    if kind == 0:
        return rng.randbytes(rng.randint(0, 12))
    if kind == 1:
        return rng.choice((0xCA, 0xCB, 0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3)).to_bytes() + rng.randbytes(8)
    if kind == 2:
        text = rng.randbytes(rng.randint(0, 5))
        return rng.choice((claim(rng, 0xD9, 0xDA, 0xDB, len(text)), claim(rng, 0xC4, 0xC5, 0xC6, len(text)))) + text
    if kind == 3:
        return bytes((rng.choice((0xC0, 0xC1, 0xC2, 0xC3, rng.randint(0, 0x7F), rng.randint(0xE0, 0xFF))),))
    if kind <= 6 or not room:
        return extension(rng, room)
    items = [token(rng, room - 1) for _ in range(rng.randint(0, 4))]
    if kind <= 8:
        return claim(rng, None, 0xDC, 0xDD, len(items)) + b"".join(items)
    return claim(rng, None, 0xDE, 0xDF, len(items) // 2) + b"".join(items)


def extension(rng: Rng, room: int = 0) -> bytes:
    """Return a msgpack extension type whose body is almost correct."""
    code, body = rng.choice(
        ((1, trailed), (2, trailed), (3, token), (4, any_bytes), (12, named), (None, any_bytes), (0, any_bytes))
    )
    if code == 0:
        code, body = rng.choice(((5, quantized), (rng.choice((5, 6, 7, 8, 9, 11, 13, 14, 127)), near_coded)))
    content = body(rng, room - 1) if body is token and room else body(rng)
    number = rng.randint(0, 255) if code is None else code
    if len(content) in (1, 2, 4, 8, 16) and rng.random() < 0.5:
        return bytes((0xD4 + (1, 2, 4, 8, 16).index(len(content)), number)) + content
    return claim(rng, 0xC7, 0xC8, 0xC9, len(content)) + bytes((number,)) + content


def named(rng: Rng) -> bytes:
    """Return a payload with a registered name and its content, or a malformed variant."""
    name = rng.choice((b"\xa8bfloat16", b"\xa8bfloat16", b"\xa1a", token(rng, 0)))
    bits = encode(np.arange(rng.randint(0, 3), dtype=np.uint16))
    return name + rng.choice((any_bytes(rng), token(rng), extension(rng), bits, mutated(rng, bits)))


ODD_DTYPES = (
    "O", "|O8", "T", "V0", "S0", "U0", "U", "f8,f8", "(3,)f8", "3f8", "a5", "float", "M8", "M8[0s]", "M8[25s/5]",
    "<c17", "V2147483647", "m8[2147483647Y]", ">U1", "=f8", "|f8", "b1", "?", "g", "p", "", "\0", ",f8",
    "é", "9" * 90 + "f8",
)  # fmt: skip


def described(rng: Rng, room: int = 3) -> Any:
    """Return a value in the place of a dtype's description: a name, a list of fields, or something invalid."""
    if not room or rng.random() < 0.6:
        return rng.choice((*DTYPES, *ODD_DTYPES, None, 5, b"f8", [], {}, [[]], [["a"]]))
    fields = []
    for _ in range(rng.randint(0, 3)):
        name = rng.choice(("a", "b", "", "é", None, 3, ["title", "c"], ["x"], ["a", "a"]))
        shape = [rng.choice((0, 1, 2, -1, 2**31, 2**62, True, 2.0, None)) for _ in range(rng.randint(0, 2))]
        fields.append([name, described(rng, room - 1), *([shape] if rng.random() < 0.4 else [])])
    return fields


def trailed(rng: Rng) -> bytes:
    """Return raw bytes followed by an array description that may not match them."""
    shape = [rng.choice((0, 1, 2, 3, -1, 2**31, 2**62, 2**63, True, 1.0, None)) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.3:
        shape = [1] * rng.choice((30, 63, 64, 65, 120))
    head = msgpack.packb([described(rng), *shape])
    head = head if rng.random() < 0.9 else mutated(rng, head)
    length = rng.choice((len(head) % 256, len(head) % 256, len(head) % 256, rng.randint(0, 255)))
    raw = rng.randbytes(rng.choice((0, 0, 1, 2, 4, 5, 8, 16, 24)))
    return raw + head + bytes((length,))


def near_coded(rng: Rng) -> bytes:
    """Return the bytes of a coded array: valid, almost valid, or truncated."""
    way = rng.random()
    if way < 0.4:
        return mutated(rng, any_coded(rng).pack())
    if way < 0.5:
        return any_coded(rng).pack()
    length = (0, 0, 1, 2, 3, 5, 127, 128, 2**16, 2**20, 2**24, 2**24 + 1, 2**40, 2**47, 2**62)
    shape = rng.choice((rng.choice(length), [rng.choice(length), rng.choice(length)], [0], -1, None, "a"))
    parts = [
        msgpack.packb(shape),
        msgpack.packb(rng.choice(length)),
        bytes((rng.choice((0, 1, 2, 3, 5, 6, 7, 8, 9, 16, 32, 64, 127, 128, 255)),)),
        struct.pack("<f", rng.choice((0.0, 1.0, -1.0, 1e-45, 3e38, float("nan"), float("inf")))),
        rng.randbytes(rng.choice((0, 1, 2, 8, 20))),
        quantized(rng),
    ]
    return b"".join(rng.choices(parts, k=rng.randint(1, 5)) if rng.random() < 0.5 else parts)


def quantized(rng: Rng) -> bytes:
    """Return the bytes of a quantized vector or matrix whose parts may be inconsistent."""
    length = (0, 0, 1, 2, 3, 5, 2**20, 2**40, 2**47, 2**62)
    shape = rng.choice((rng.choice(length), [rng.choice(length), rng.choice(length)], [rng.choice(length)], [1, 2, 3],
                        -1, [0, -1], 2.0, [True, 1], None, [], "a", b"\xdd\x05\xf5\xe1\x00"))  # fmt: skip
    sizes = [rng.choice((0.0, 1.0, -0.0, 5e-324, 3e38, -1.0, float("nan"), float("inf"), any_float(rng)))
             for _ in range(rng.randint(0, 5))]  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        side = np.array(sizes, rng.choice(("<f4", "<f8"))).tobytes()
    packed = shape if isinstance(shape, bytes) else msgpack.packb(shape)
    data = rng.randbytes(rng.choice((0, 0, 1, 2, 3, 4, 6, rng.randint(0, 20))))
    return bytes((rng.getrandbits(8),)) + packed + side + data


def mutated(rng: Rng, data: bytes) -> bytes:
    """Return the bytes with one to four random changes: a flipped bit, a cut, a repetition, or joined parts."""
    damaged = bytearray(data)
    way = rng.random()
    if way < 0.7 and damaged:
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        return bytes(damaged)
    first, second = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    if way < 0.8:
        return data[:first]
    if way < 0.9:
        return data[:first] + data[second:]
    return data[:second] + rng.choice((data[first:], rng.randbytes(3), token(rng))) + data[second:]


def nested(rng: Rng) -> bytes:
    """Return lists, dicts and tuples nested about as deep as allowed, or far deeper."""
    depth = rng.choice((MOST_NESTED - 1, MOST_NESTED, MOST_NESTED + 1, MOST_NESTED + 2, 100, 1100, 3000))
    mix = rng.choice(("l", "d", "t", "ldt")) if depth < 1100 else rng.choice("ld")
    body = b"\xc0"
    for _ in range(depth):
        kind = rng.choice(mix)
        body = b"\x91" + body if kind == "l" else b"\x81\x01" + body if kind == "d" else b"\xc9" + struct.pack(
            ">IB", len(body) + 1, 3) + b"\x91" + body  # fmt: skip
    return body


def crowded(rng: Rng) -> bytes:
    """Return a dict whose keys all have the same hash, or are all equal."""
    count = rng.choice((2, 250, 255, 256, 257, 400))
    keys = [complex(10**15 - 1000003 * i, i) for i in range(count)] if rng.random() < 0.7 else [1j] * count
    pairs = b"".join(b"\xd8\x04" + struct.pack("<dd", key.real, key.imag) + b"\x00" for key in keys)
    return b"\xde" + struct.pack(">H", count) + pairs


def frame(rng: Rng) -> bytes:
    """Return an encoded frame as an agent would send it."""
    request = (rng.randint(1, 2**40), rng.random() < 0.5) if rng.random() < 0.2 else ()
    return FrameEncoder().encode(any_text(rng), rng.randrange(3), rng.randint(0, 2**33), payload(rng, 3), *request)


@lru_cache(4096)
def kept_frame(number: int) -> bytes:
    """Return one of many frames made in advance, because making a frame takes longer than using it."""
    return frame(random.Random(number))


def hostile(rng: Rng) -> bytes:
    """Return hostile bytes: noise, msgpack with wrong lengths, or a valid frame with flipped bits."""
    way = rng.random()
    if way < 0.1:
        return rng.randbytes(rng.randint(0, 60))
    if way < 0.45:
        return mutated(rng, frame(rng) if rng.random() < 0.1 else kept_frame(rng.randrange(4096)))
    if way < 0.47:
        return nested(rng)
    if way < 0.472:
        return crowded(rng)
    content = extension(rng, 3) if way < 0.8 else token(rng)
    if rng.random() < 0.3:
        # Place the content as the payload of a frame.
        content = b"\x94\xa1m\x01\x07" + content
    return content


# --- what must hold ---------------------------------------------------------------------------------------------------


def use(value: Any) -> None:
    """Read every part of a received payload, as agents would."""
    if isinstance(value, Sparse) and np.prod(value.shape) > 2**20:
        # A few bytes may decode to a long vector of zeros, with up to 2**24 elements.
        assert value.indices.max(initial=0) < np.prod(value.shape) <= 2**24
    elif isinstance(value, Coded):
        values = value.values
        assert values.shape == value.shape
        assert np.isfinite(values).all()
        assert value.payload_bits >= 0
    elif isinstance(value, list | tuple):
        for part in value:
            use(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            use(key)
            use(part)
    elif isinstance(value, np.ndarray):
        assert not value.flags.writeable
        if value.size <= 5 and value.ndim <= MOST_DIMENSIONS and not _is_unprintable(value.dtype):
            repr(value)
    elif not (isinstance(value, np.generic) and _is_unprintable(value.dtype)):
        repr(value)


def _is_unprintable(dtype: np.dtype[Any]) -> bool:
    """Return whether numpy cannot print arrays of this dtype.

    Reasons are elements of size 0, of which there may be very many, dates outside numpy's range of years, and
    characters outside Unicode.
    """
    parts = [part[0] for part in (dtype.fields or {}).values()] + ([dtype.subdtype[0]] if dtype.subdtype else [])
    return not dtype.itemsize or dtype.kind in "MU" or any(map(_is_unprintable, parts))


def check_hostile(data: bytes) -> bool:
    """Decode hostile bytes: they must raise a WireError, or give a payload that can be read and sent again.

    Return whether it was decoded.
    """
    try:
        value = decode(data)
    except WireError:
        return False
    use(value)
    payload_bits(value)
    is_mutable(value)
    try:
        again = decode(encode(value))
    except WireError as error:
        # numpy reads some descriptions of structures that it does not write, such as "f8,f8" in place of a longer form.
        if not str(error).startswith("cannot encode an array of dtype"):
            raise
    else:
        assert same(again, value)
    try:
        received = decode_frame(data, 0.0, NAMES)
    except WireError:
        return True
    assert same(received.payload, value[3])
    return True


def check_payload(value: Any) -> None:
    """Check that a payload arrives unchanged, both bare and in a frame."""
    data = encode(value)
    assert same(decode(data), value)
    sent = FrameEncoder().encode("m", 1, 7, value)
    assert data in sent
    received = decode_frame(sent, 0.0, NAMES)
    assert (received.kind, received.sender, received.round) == ("m", "b", 7)
    assert same(received.payload, value)
    assert payload_bits(received.payload) == payload_bits(value)


def check_one(rng: Rng) -> None:
    """Check one random input: mostly hostile bytes, otherwise a payload."""
    if rng.random() < 0.8:
        check_hostile(hostile(rng))
    else:
        check_payload(payload(rng))
