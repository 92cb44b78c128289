"""Payloads that are not netsim's own: other libraries' arrays, and classes that a user registers.

agent → outbox → link → inbox → agent: before a payload is encoded, `encodable` replaces what the codec does not
know. An array on the CPU of any library (a PyTorch tensor, a JAX array) becomes the numpy array that it is, an
OrderedDict a dict. An object of a registered class, or an array of bfloat16, becomes a `Named` payload: it travels as a
name and what its class was packed into.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput, WireError, one_line
from netsim.util import check
from netsim.wire import registry
from netsim.wire.coded import Coded

__all__ = ["Named", "encodable", "holds_numbers", "register", "unpacked"]

LONGEST_NAME = 255

MOST_NESTED = 32
"""The deepest nesting of lists, tuples and dicts in a payload: [[1.0]] is 2 deep.

Decoding a level takes about 50 kB of stack and, for tuples, a copy of their items.
"""

T = TypeVar("T")

# DLPack's numbers of devices whose memory the CPU reads: its own, and what CUDA and ROCm pin there.
_ON_CPU = {1, 3, 11}
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "managed CUDA", 14: "oneAPI", 15: "WebGPU"}

_BFLOAT16 = "bfloat16"

# What stays as it is, wherever it stands; an array may be one of bfloat16.
_KEPT = frozenset({float, int, str, bytes, bool, type(None), complex, bytearray, memoryview})
_OWN = _KEPT | {np.ndarray, list, tuple, dict, OrderedDict}

# No payload is nested deeper. Twice the codec's limit, for a class that travels without a name is a level here only.
_DEEPEST = 2 * MOST_NESTED


@dataclass(frozen=True, eq=False, slots=True)
class Named:
    """What travels under a name: the payload that an object was packed into."""

    name: str
    content: Any

    @property
    def is_mutable(self) -> bool:
        """Whether a receiver could change what arrives: not an array of bfloat16, which is read-only."""
        return self.name != _BFLOAT16


@dataclass(frozen=True, slots=True)
class _Kind:
    """How objects of a registered class are packed; without a name they arrive as that."""

    pack: Callable[[Any], Any]
    name: str | None


_packing: dict[type, _Kind] = {}
# By name; None is no name.
_unpacking: dict[str | None, tuple[type, Callable[[Any], Any]]] = {}


def register(
    kind: type[T], pack: Callable[[T], Any], unpack: Callable[[Any], T] | None = None, *, name: str | None = None
) -> None:
    """Let objects of a class be sent, as part of a payload or by themselves.

    Register it in every program that sends or receives it, before it runs: where the class is defined.

    Parameters
    ----------
    kind : type
        The class. Its subclasses are not registered with it.
    pack : callable
        Returns a payload from an object: anything that can be sent, other registered objects among it.
    unpack : callable, optional
        Returns the object from what the receiver has of this payload, in which arrays are read-only. Without it the
        payload itself arrives.
    name : str, optional
        The name on the wire, of at most 255 bytes; default: module and name of the class. It counts as wire bits of
        each object, and not as payload bits.

    Raises
    ------
    BadInput
        For a class that netsim encodes itself, or the name of another class. A class of the same module and name
        replaces the old one, as when a cell of a notebook is run again.
    """
    if not isinstance(kind, type) or kind in _OWN or issubclass(kind, Coded | np.generic):
        raise check.refuse("kind", kind, "a class that netsim does not encode itself (a Coded one: coders.register)")
    for what, function in (("pack", pack), ("unpack", unpack)):
        if not callable(function) and (function is not None or what == "pack"):
            raise check.refuse(what, function, "a function of one argument")
    title = f"{kind.__module__}.{kind.__qualname__}" if name is None else name
    if type(title) is not str or not 0 < _bytes_of(title) <= LONGEST_NAME:
        raise check.refuse("name", title, f"text of 1 to {LONGEST_NAME} bytes")
    if unpack is None and name is not None:
        raise BadInput(f"name = {name!r}: must go with unpack; without it what pack returns travels, and has no name")
    if unpack is not None and title in _unpacking and _title(_unpacking[title][0]) != _title(kind):
        raise check.refuse("name", title, f"free; it is the name of {_title(_unpacking[title][0])}")
    for old in [each for each in _packing if _title(each) == _title(kind)]:
        _unpacking.pop(_packing.pop(old).name, None)
    _packing[kind] = _Kind(pack, None if unpack is None else title)
    if unpack is not None:
        _unpacking[title] = kind, unpack


def _bytes_of(title: str) -> int:
    """Return how many bytes a name has; 0 for one that has none, as half of a surrogate pair."""
    try:
        return len(title.encode())
    except UnicodeEncodeError:
        return 0


def _title(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def encodable(payload: Any) -> Any:
    """Return a payload with each part that the codec does not know replaced; the same object if there is none.

    Raises
    ------
    WireError
        If an array is on another device than the CPU, or the ``pack`` of a registered class raises an error.
    """
    return _encodable(payload, _DEEPEST)


def _encodable(value: Any, depth_left: int) -> Any:
    kind = type(value)
    if kind is np.ndarray:
        # numpy's own types have numbers below 256.
        return value if value.dtype.num < 256 else _numpy_array(value)
    if kind in _KEPT or kind in registry.NUMBERS:
        return value
    if not depth_left:
        # Here, not in the codec: what holds itself twice would double in size at each level before the codec sees it.
        raise WireError(f"cannot encode the payload: lists, tuples and dicts are nested deeper than {MOST_NESTED}")
    if kind is list or kind is tuple:
        if _KEPT.issuperset(map(type, value)):
            return value
        parts = [_encodable(part, depth_left - 1) for part in value]
        return value if all(map(_same, parts, value)) else kind(parts)
    if kind is dict or kind is OrderedDict:
        found = {key: _encodable(part, depth_left - 1) for key, part in value.items()}
        return value if kind is dict and all(map(_same, found.values(), value.values())) else found
    known = _packing.get(kind)
    if known is not None:
        return _packed(value, known, depth_left)
    return _array(value) if _is_array(value) else value


def _same(a: object, b: object) -> bool:
    return a is b


def _packed(value: Any, known: _Kind, depth_left: int) -> Any:
    """Return what an object of a registered class becomes."""
    try:
        content = known.pack(value)
    except Exception as error:
        raise WireError(f"cannot encode a {_title(type(value))}: its pack raises {one_line(error)}") from error
    # A tensor that is packed into its copy on the CPU is what this would be if it was not registered.
    is_copy = type(content) is type(value) and _is_array(content)
    if content is value and not is_copy:
        raise WireError(f"cannot encode a {_title(type(value))}: its pack returns the same object")
    content = _array(content) if is_copy else _encodable(content, depth_left - 1)
    return content if known.name is None else Named(known.name, content)


def _is_array(value: Any) -> bool:
    """Return whether this is an array of another library; subclasses of numpy's are not."""
    kind = type(value)
    if isinstance(value, np.ndarray | np.generic | Coded):
        return False
    return hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")


def _array(value: Any) -> Any:
    """Return another library's array as numpy's, which may share its memory."""
    title = _title(type(value))
    try:
        if hasattr(type(value), "__dlpack_device__"):
            device, number = map(int, value.__dlpack_device__())
            if device not in _ON_CPU:
                where = f"{_DEVICES.get(device, f'DLPack type {device}')} {number}"
                remedy = "copy it to the CPU first, or register how (netsim.payloads.register)"
                raise WireError(f"cannot encode a {title} on device {where}: {remedy}")
        if getattr(value, "requires_grad", False):
            # Its values travel, not how they came about.
            value = value.detach()
        if str(getattr(value, "dtype", "")) == "torch.bfloat16":
            # PyTorch gives nobody else its bfloat16, but the same bits as integers.
            return Named(_BFLOAT16, np.asarray(value.view(sys.modules["torch"].int16)).view(np.uint16))
        return _numpy_array(np.asarray(value) if hasattr(type(value), "__array__") else np.from_dlpack(value))
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"cannot encode a {title}: {one_line(error)}") from error


def _numpy_array(array: NDArray[Any]) -> Any:
    return Named(_BFLOAT16, array.view(np.uint16)) if _is_bfloat16(array.dtype) else array


def _is_bfloat16(dtype: np.dtype[Any]) -> bool:
    return dtype.num >= 256 and dtype.name == _BFLOAT16


def holds_numbers(dtype: np.dtype[Any]) -> bool:
    """Return whether an array of this type can be added up: of real numbers or truth values."""
    return dtype.kind in "fiub" or _is_bfloat16(dtype)


def unpacked(name: str, content: Any) -> Any:
    """Return what arrives as ``name``, from the payload that it travelled as; raises WireError only."""
    known = _unpacking.get(name)
    if known is None:
        raise WireError(f"unknown payload {name!r:.80}: its class is not registered here (netsim.payloads.register)")
    try:
        return known[1](content)
    except Exception as error:
        raise WireError(f"cannot decode a {_title(known[0])}: its unpack raises {one_line(error)}") from error


def _bfloat16(bits: Any) -> NDArray[Any]:
    """Return the numbers of these bits: of ml_dtypes' bfloat16, or the same as float32 where that is not installed."""
    if type(bits) is not np.ndarray or bits.dtype != np.uint16:
        raise WireError("an array of bfloat16 must be of 16 bits an element")
    try:
        return bits.view(import_module("ml_dtypes").bfloat16)
    except ImportError:
        # A bfloat16 is the upper half of a float32.
        wide = np.array(bits, dtype=np.uint32)
        wide <<= np.uint32(16)
        numbers = wide.view(np.float32)
        numbers.flags.writeable = False
        return numbers


_unpacking[_BFLOAT16] = np.ndarray, _bfloat16
