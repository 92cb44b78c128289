"""Payloads of foreign types: other libraries' arrays, and classes that a user registers.

On the path agent → outbox → link → inbox → agent, `encodable` replaces the parts of a payload that the codec does not
know, before the outbox encodes it. An array of any library on the CPU (a PyTorch tensor, a JAX array) becomes a numpy
array, and an OrderedDict becomes a dict. An object of a registered class, or an array of bfloat16, becomes a `Named`
payload: the name of its class and the packed content.
"""

import operator
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

Decoding takes about 50 kB of stack for each level, and copies the items of each tuple.
"""

T = TypeVar("T")

# DLPack's numbers of the device types whose memory the CPU can read: CPU, and host memory pinned by CUDA or ROCm.
_ON_CPU = {1, 3, 11}
# {DLPack's number: name} of other device types, for error messages.
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "managed CUDA", 14: "oneAPI", 15: "WebGPU"}

_BFLOAT16 = "bfloat16"

# Types that `encodable` never replaces. numpy's arrays are not among them, because arrays of bfloat16 are replaced.
_UNCHANGED = frozenset({float, int, str, bytes, bool, type(None), complex, bytearray, memoryview})
_OWN_TYPES = _UNCHANGED | {np.ndarray, list, tuple, dict, OrderedDict}

# The largest depth of nested containers in `encodable`. It is twice the codec's limit, because an object of a class
# registered without ``unpack`` counts as a level here, but not in the codec.
_MAX_DEPTH = 2 * MOST_NESTED


@dataclass(frozen=True, eq=False, slots=True)
class Named:
    """The packed content of an object, with the name under which the receiver unpacks it."""

    name: str
    content: Any

    @property
    def is_mutable(self) -> bool:
        """Whether a receiver could change the unpacked object in place; only bfloat16 arrays are read-only."""
        return self.name != _BFLOAT16


@dataclass(frozen=True, slots=True)
class _Kind:
    """A registered class's ``pack`` function, and its name on the wire; the name is None without ``unpack``."""

    pack: Callable[[Any], Any]
    name: str | None


_packing: dict[type, _Kind] = {}
# {name on the wire: (class, its unpack function)}. None is never a key. The type permits it because `register` calls
# pop() with the name of a class, which may be None.
_unpacking: dict[str | None, tuple[type, Callable[[Any], Any]]] = {}


def register(
    kind: type[T], pack: Callable[[T], Any], unpack: Callable[[Any], T] | None = None, *, name: str | None = None
) -> None:
    """Register a class, so that its objects can be sent, alone or inside a payload.

    Every program that sends or receives the class must register it: do so where the class is defined.

    Parameters
    ----------
    kind : type
        The class. Subclasses are not registered with it.
    pack : callable
        Takes an object and returns a payload: anything that can be sent, including other registered objects.
    unpack : callable, optional
        Takes the received payload, in which arrays are read-only, and returns the object. Without ``unpack``, the
        receiver gets the payload itself.
    name : str, optional
        The name on the wire, of at most 255 bytes; default: module and name of the class. It counts as wire bits of
        each object, not as payload bits.

    Raises
    ------
    BadInput
        If netsim encodes the class without registration, ``name`` belongs to another class, or an argument is invalid.
        A class of the same module and name replaces the old class, for example when a notebook cell is run again.
    """
    if not isinstance(kind, type) or kind in _OWN_TYPES or issubclass(kind, Coded | np.generic):
        raise check.refuse("kind", kind, "a class that netsim does not encode itself (a Coded one: coders.register)")
    for what, function in (("pack", pack), ("unpack", unpack)):
        if not callable(function) and (function is not None or what == "pack"):
            raise check.refuse(what, function, "a function of one argument")
    title = f"{kind.__module__}.{kind.__qualname__}" if name is None else name
    if type(title) is not str or not 0 < _bytes_of(title) <= LONGEST_NAME:
        raise check.refuse("name", title, f"text of 1 to {LONGEST_NAME} bytes")
    if unpack is None and name is not None:
        raise BadInput(f"name = {name!r}: must come with unpack; without it, the packed payload is sent without a name")
    if unpack is not None and title in _unpacking and name_of(_unpacking[title][0]) != name_of(kind):
        raise check.refuse("name", title, f"free; it is the name of {name_of(_unpacking[title][0])}")
    for old in [each for each in _packing if name_of(each) == name_of(kind)]:
        _unpacking.pop(_packing.pop(old).name, None)
    _packing[kind] = _Kind(pack, None if unpack is None else title)
    if unpack is not None:
        _unpacking[title] = kind, unpack


def _bytes_of(title: str) -> int:
    """Return the number of bytes of a name in UTF-8; 0 if it cannot be encoded, such as half a surrogate pair."""
    try:
        return len(title.encode())
    except UnicodeEncodeError:
        return 0


def name_of(kind: type) -> str:
    """Return a class's name with that of its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def encodable(payload: Any) -> Any:
    """Replace all parts of a payload that the codec does not know; a payload without such parts is returned unchanged.

    Raises
    ------
    WireError
        If an array is on another device than the CPU, or the ``pack`` of a registered class raises an error.
    """
    return payload if type(payload) in _UNCHANGED else _encodable(payload, _MAX_DEPTH)


def _encodable(value: Any, depth_left: int) -> Any:
    kind = type(value)
    if kind is np.ndarray:
        # dtype.num is at least 256 for dtypes of other packages, such as ml_dtypes' bfloat16.
        return value if value.dtype.num < 256 else _numpy_array(value)
    if kind in _UNCHANGED or kind in registry.NUMBERS:
        return value
    if not depth_left:
        # The codec also checks the depth, but only after this function. Without a check here, a list that contains
        # itself twice would double in size at each level.
        raise WireError(f"cannot encode the payload: lists, tuples and dicts are nested deeper than {MOST_NESTED}")
    if kind is list or kind is tuple:
        if _UNCHANGED.issuperset(map(type, value)):
            return value
        parts = [_encodable(part, depth_left - 1) for part in value]
        return value if all(map(operator.is_, parts, value)) else kind(parts)
    if kind is dict or kind is OrderedDict:
        found = {key: _encodable(part, depth_left - 1) for key, part in value.items()}
        return value if kind is dict and all(map(operator.is_, found.values(), value.values())) else found
    known = _packing.get(kind)
    if known is not None:
        return _packed(value, known, depth_left)
    return _array(value) if _is_array(value) else value


def _packed(value: Any, known: _Kind, depth_left: int) -> Any:
    try:
        content = known.pack(value)
    except Exception as error:
        raise WireError(f"cannot encode a {name_of(type(value))}: its pack raises {one_line(error)}") from error
    # If the registered class is a tensor, `pack` may return a tensor of the same class, copied to the CPU. `_encodable`
    # would call `pack` for the copy again, so convert the copy here, like any other array.
    is_copy = type(content) is type(value) and _is_array(content)
    if content is value and not is_copy:
        raise WireError(f"cannot encode a {name_of(type(value))}: its pack returns the same object")
    content = _array(content) if is_copy else _encodable(content, depth_left - 1)
    return content if known.name is None else Named(known.name, content)


def _is_array(value: Any) -> bool:
    """Return whether ``value`` is an array of another library; subclasses of numpy's array do not count."""
    kind = type(value)
    if isinstance(value, np.ndarray | np.generic | Coded):
        return False
    return hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")


def _array(value: Any) -> Any:
    """Convert another library's array to a numpy array, which may share its memory."""
    title = name_of(type(value))
    try:
        if hasattr(type(value), "__dlpack_device__"):
            device, number = map(int, value.__dlpack_device__())
            if device not in _ON_CPU:
                where = f"{_DEVICES.get(device, f'DLPack type {device}')} {number}"
                remedy = "copy it to the CPU first, or register how (netsim.payloads.register)"
                raise WireError(f"cannot encode a {title} on device {where}: {remedy}")
        if getattr(value, "requires_grad", False):
            # torch refuses to convert a tensor that tracks gradients. Detach it, because gradients are not sent.
            value = value.detach()
        if str(getattr(value, "dtype", "")) == "torch.bfloat16":
            # PyTorch cannot export bfloat16 to numpy, but can export the same bits as integers.
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
    """Return whether the elements of this dtype are real numbers or booleans, so that arrays of it can be summed."""
    return dtype.kind in "fiub" or _is_bfloat16(dtype)


def unpacked(name: str, content: Any) -> Any:
    """Unpack the content of a `Named` payload; raises only WireError."""
    known = _unpacking.get(name)
    if known is None:
        raise WireError(f"unknown payload {name!r:.80}: its class is not registered here (netsim.payloads.register)")
    try:
        return known[1](content)
    except Exception as error:
        raise WireError(f"cannot decode a {name_of(known[0])}: its unpack raises {one_line(error)}") from error


def _bfloat16(bits: Any) -> NDArray[Any]:
    """Return bfloat16 numbers, given their bits, in ml_dtypes' type or, without ml_dtypes, widened to float32."""
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
