"""Payloads of every kind, and ways to modify them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from netsim.coders import QSGD, Encoded, Exact, Float, RandomK, Sign, Ternary, TopK, Uniform

FLOATS = [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7e308]
WHOLE = [0, -1, 127, 128, -(2**63), 2**64 - 1]
TEXTS = ["", "a", "naïve ∑ \0", "x" * 300]
DTYPES = ["f8", "f4", "f2", "i8", "u1", "?", "c16"]


def _vector(rng: np.random.Generator) -> Any:
    return rng.standard_normal(int(rng.choice([0, 1, 5, 100])))


def _array(rng: np.random.Generator) -> Any:
    shape = tuple(rng.integers(0, 4, int(rng.integers(0, 4))))
    array = (10 * rng.random(shape)).astype(str(rng.choice(DTYPES)))
    return array if rng.random() < 0.5 else np.asfortranarray(array)[..., ::-1] if array.ndim else array


def _view(rng: np.random.Generator) -> Any:
    return rng.standard_normal((6, 4))[::2, 1:3].T


def _scalar(rng: np.random.Generator) -> Any:
    kinds: list[Callable[[float], Any]] = [np.float32, np.float64, np.int8, np.bool_, np.complex64]
    return kinds[rng.integers(len(kinds))](float(rng.integers(0, 100)))


def _coded(rng: np.random.Generator) -> Encoded:
    bits, rows = int(rng.integers(1, 17)), bool(rng.random() < 0.5)
    values = rng.standard_normal((int(rng.integers(1, 4)), int(rng.integers(1, 30))))
    coders = (Uniform(bits, -1, 1), Uniform(bits, by_row=rows), QSGD(bits, by_row=rows), Float(32), Exact())
    coders += (TopK(bits), RandomK(bits, Uniform(bits)), Sign(), Ternary())
    return coders[rng.integers(len(coders))].encode(values, rng)


def _list(rng: np.random.Generator) -> Any:
    return [make(rng, _SIMPLE) for _ in range(rng.integers(0, 4))]


def _tuple(rng: np.random.Generator) -> Any:
    return (*_list(rng), (1, ("deep", [2])))


def _dict(rng: np.random.Generator) -> Any:
    return {f"key {i}": make(rng, _SIMPLE) for i in range(rng.integers(0, 4))} | {"θ": [1, {"in": None}]}


_SIMPLE: list[Callable[[np.random.Generator], Any]] = [
    lambda rng: FLOATS[rng.integers(len(FLOATS))],
    lambda rng: WHOLE[rng.integers(len(WHOLE))],
    lambda rng: TEXTS[rng.integers(len(TEXTS))],
    lambda rng: rng.bytes(int(rng.choice([0, 3, 60]))),
    lambda rng: None,
    lambda rng: bool(rng.random() < 0.5),
    _vector,
    _scalar,
]
_ALL = [*_SIMPLE, _vector, _array, _view, _coded, _list, _tuple, _dict]


def make(rng: np.random.Generator, kinds: list[Callable[[np.random.Generator], Any]] = _ALL) -> Any:
    """Return a payload of a random kind."""
    return kinds[rng.integers(len(kinds))](rng)


def spoil(payload: Any) -> None:
    """Modify a payload in place where possible; no other agent may notice."""
    if isinstance(payload, np.ndarray):
        if payload.flags.writeable and payload.size:
            payload.fill(1)
    elif isinstance(payload, list | dict):
        for part in payload.values() if isinstance(payload, dict) else payload:
            spoil(part)
        payload.clear()
    elif isinstance(payload, tuple):
        for part in payload:
            spoil(part)


def read_only(payload: Any) -> bool:
    """Return whether all arrays in a received payload are read-only."""
    if isinstance(payload, np.ndarray):
        return not payload.flags.writeable
    if isinstance(payload, dict):
        payload = list(payload.values())
    return all(map(read_only, payload)) if isinstance(payload, list | tuple) else True
