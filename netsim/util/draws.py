"""Random numbers as a pure function of (seed, name, purpose, number).

The name belongs to an agent or a link. The purpose is a text, such as "minibatch": each purpose has a stream of random
numbers. A generator object per link would take more memory than the link itself. With a single generator for all
links, a frame on one link would change the draws for other links. So a stream is represented by a 64-bit key. The n-th
number of the stream is the SplitMix64 output function of key + n·γ, where γ is the constant increment of SplitMix64
(Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"). Functions that take arrays of keys compute
many streams together.
"""

import hashlib
import math
import numbers
from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.util import check

Keys = NDArray[np.uint64]

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
# The same constants as Python integers, which are faster than numpy's integers for a single number.
_GAMMA, _FIRST, _SECOND, _WORD = int(GAMMA), int(_MIX_1), int(_MIX_2), 2**64 - 1
_S30, _S27, _S31, _S11 = (np.uint64(s) for s in (30, 27, 31, 11))
_TO_UNIT = 2.0**-53


def _mix(z: Keys) -> Keys:
    """Apply SplitMix64's output function to each element in place, and return the array."""
    z ^= z >> _S30
    z *= _MIX_1
    z ^= z >> _S27
    z *= _MIX_2
    z ^= z >> _S31
    return z


def mix_words(*words: NDArray[Any]) -> Keys:
    """Return n 64-bit hashes: hash i is computed from the i-th integers of all arrays, of shape (n,) each."""
    mixed = np.zeros(len(words[0]), dtype=np.uint64)
    for word in words:
        mixed = _mix(mixed + (word if word.dtype == np.uint64 else word.astype(np.uint64)) + GAMMA)
    return mixed


def name_key(name: Hashable) -> int:
    """Return a 64-bit key of a name, equal for equal names and, unlike hash(name), the same in every process.

    Raises BadInput for the same names as `plain_name`.
    """
    plain = plain_name(name)
    text = repr((type(plain).__name__, plain))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def plain_name(name: Hashable) -> Any:
    """Return a name as an equal value of a standard Python type: 0 for 0.0, False, Fraction(0) and numpy's zeros.

    Equal names denote the same node of a graph, so draws for the node must not depend on the name's type. `name_key`
    hashes the printed form, which for numpy's and other libraries' types also depends on the library's version.

    Raises
    ------
    BadInput
        If the name is not text, bytes, a number, None, or a tuple of these; or if it is a number, such as NaN, without
        an equal number of Python's types.
    """
    kind = type(name)
    if kind is str or (kind is int and -_LARGEST < name < _LARGEST):  # type: ignore[operator]
        return name
    if isinstance(name, tuple):
        return tuple(map(plain_name, name))
    if isinstance(name, str):
        plain: Any = str.__str__(name)
    elif isinstance(name, bytes):
        plain = bytes(name)
    elif name is None:
        return None
    elif isinstance(name, numbers.Number | np.bool_):
        plain = _plain_number(name)
    else:
        raise check.refuse("node", name, "text, bytes, a number, None, or a tuple of these")
    # ``plain`` differs from a name that is NaN, that lost digits in the conversion, or whose type compares differently.
    if plain != name or hash(plain) != hash(name):
        raise check.refuse("node", name, "equal to a str or bytes" if isinstance(name, str | bytes) else _NUMBERS)
    return plain


_LARGEST = 2**2048
"""Limit of integer names: Python may refuse to print larger integers (``PYTHONINTMAXSTRDIGITS`` may be only 640)."""

_NUMBERS = "equal to an int, float, Fraction or complex, of less than 2,048 bits"


def _plain_number(name: Any) -> Any:
    try:
        if isinstance(name, numbers.Integral | np.bool_) and not isinstance(name, np.timedelta64):
            exact = Fraction(int(name))
        elif isinstance(name, numbers.Complex) and not isinstance(name, numbers.Real):
            value = complex(name)
            # Adding 0.0 turns −0.0 into 0.0, because both are equal but are printed differently.
            return _plain_number(value.real) if not value.imag else complex(value.real + 0.0, value.imag + 0.0)
        elif name in (math.inf, -math.inf):
            return float(name)
        elif isinstance(name, Decimal) and abs(name.adjusted()) > _LARGEST.bit_length():
            # The exact fraction of a Decimal with such a large exponent would fill the memory.
            raise OverflowError
        else:
            exact = Fraction(*name.as_integer_ratio())
        if max(abs(exact.numerator), exact.denominator) >= _LARGEST:
            raise OverflowError
        if exact.denominator == 1:
            return exact.numerator
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        raise check.refuse("node", name, _NUMBERS) from None
    try:
        return real if (real := float(exact)) == exact else exact
    except OverflowError:
        return exact


@lru_cache(maxsize=1024, typed=True)
def purpose_key(seed: int, purpose: str) -> int:
    """Return a 64-bit key of (seed, purpose); `stream_keys` combines it with the key of each link or agent."""
    return name_key((seed, purpose))


def stream_keys(seed: int, keys: Keys, purpose: str) -> Keys:
    """Return the stream keys of n links or agents for a purpose, shape (n,); ``keys`` identify the links or agents."""
    return _mix(keys * _MIX_2 + np.uint64(purpose_key(seed, purpose)))


def link_keys(senders: Keys, receivers: Keys) -> Keys:
    """Return a key for each of n directed links, shape (n,), from the name keys of its ends."""
    return _mix(_mix(senders + GAMMA) + receivers * _MIX_1)


def uniforms(keys: Keys, first: int, count: int) -> NDArray[np.float64]:
    """Return numbers ``first`` … ``first + count − 1`` of each stream: shape (count, len(keys)), uniform on [0, 1)."""
    numbers = (np.arange(first + 1, first + count + 1, dtype=np.uint64) * GAMMA)[:, None]
    bits = _mix(numbers + keys[None, :])
    bits >>= _S11
    return bits.astype(np.float64) * _TO_UNIT


def stream_key(seed: int, key: int, purpose: str) -> int:
    """Return the stream key of one link or agent, as `stream_keys` does."""
    return _mix_one(key * _SECOND + purpose_key(seed, purpose))


def uniform(key: int, number: int) -> float:
    """Return one number of a stream, as `uniforms` does."""
    return (_mix_one(key + (number + 1) * _GAMMA) >> 11) * _TO_UNIT


def _mix_one(z: int) -> int:
    z &= _WORD
    z = ((z ^ (z >> 30)) * _FIRST) & _WORD
    z = ((z ^ (z >> 27)) * _SECOND) & _WORD
    return z ^ (z >> 31)


class Stream:
    """Reads a stream one number at a time; computes the numbers in small blocks, which is faster."""

    __slots__ = ("_block", "_key", "_next")

    def __init__(self, key: int, first: int = 0) -> None:
        self._key = np.array([key], dtype=np.uint64)
        self._next = first
        self._block: list[float] = []

    def uniform(self) -> float:
        """Return the next number, uniform on [0, 1)."""
        if not self._block:
            self._block = uniforms(self._key, self._next, 32)[::-1, 0].tolist()
            self._next += 32
        return self._block.pop()


def derived(seed: int, name: Hashable, purpose: str) -> int:
    """Return a 64-bit seed derived from (seed, name, purpose), for libraries that take a seed instead of a generator.

    Adding a number to the seed instead could give the seed of another run, and would repeat the draws of that run.
    """
    return stream_key(seed, name_key(name), purpose)


def generator(seed: int, name: Hashable, purpose: str) -> np.random.Generator:
    """Return an independent numpy Generator derived from (seed, name, purpose)."""
    return np.random.default_rng([seed, name_key(name), name_key(purpose)])
