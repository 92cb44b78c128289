"""Argument checks: each returns the value as a built-in Python type or raises BadInput with a one-line message.

Callers should use the returned value: checks also accept numpy scalars, but convert them, because numpy scalars may
overflow, stay in single precision or slow down later computations.
"""

import difflib
import functools
import importlib.util
import inspect
import math
import numbers
import os
import reprlib
import sys
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput

_Function = TypeVar("_Function", bound=Callable[..., Any])

ROUNDING = 1e-12
"""Tolerated relative rounding error of a computed argument: 3 * 0.1 counts as 0.3."""

# A computed probability may be below 0 or above 1 by this rounding error.
_PROBABILITY_ERROR = 4 * 2.0**-52
# `fits` accepts an object of fewer bytes without reading the memory limits, because every machine has that much memory.
_SMALL = 2**26


def refuse(name: str, value: object, allowed: str) -> BadInput:
    """Return the error for an invalid argument, with the text ``{name} = {value}: must be {allowed}``."""
    try:
        shown = " ".join(reprlib.repr(value).split())
    except ValueError:
        # Python refuses to convert integers with thousands of digits to text.
        shown = f"<{type(value).__name__}>"
    return BadInput(f"{name} = {shown}: must be {allowed}")


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Context manager that puts ``where`` before the message of any BadInput raised in its block."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{where}{error}") from None


def installed(name: str, package: str, extra: str) -> None:
    """Raise BadInput if ``package``, which ``name`` requires, is missing; the message names netsim's ``extra``."""
    if importlib.util.find_spec(package) is None:
        how = f"in netsim's clone, pip install '.[{extra}]'"
        raise BadInput(f"{name}: must go with {package}, which is not installed: {how}")


def instance(name: str, value: object, kind: Any, allowed: str, *, optional: bool = False) -> None:
    """Raise BadInput unless ``value`` is an instance of ``kind``; the message calls this kind ``allowed``.

    ``optional`` also allows None.
    """
    if not isinstance(value, kind) and not (optional and value is None):
        raise refuse(name, value, allowed)


def member(name: str, value: object, of: Container[Any], allowed: str) -> None:
    """Raise BadInput unless ``value`` is in ``of``; the message calls its members ``allowed``."""
    if value not in of:
        raise refuse(name, value, allowed)


def called(name: str, value: object) -> None:
    """Raise BadInput if ``value`` is a function or a class, which the user probably forgot to call."""
    if inspect.isroutine(value) or isinstance(value, type):
        each = getattr(value, "__name__", "it")
        raise BadInput(f"{name} = {each}: must be called: {each}(...)")


def functions(name: str, value: object, allowed: str) -> None:
    """Raise BadInput unless ``value`` is a sequence of functions, which the message calls ``allowed``."""
    wrong = [each for each in value if not callable(each)] if isinstance(value, Iterable) else [value]
    if wrong:
        raise refuse(name, wrong[0], allowed)


def doubt(text: str) -> None:
    """Issue a RuntimeWarning about a valid but implausible argument, located at the user's line that called netsim."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "netsim":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


def named(function: _Function) -> _Function:
    """Decorate a function or class to raise BadInput, instead of TypeError, for an unknown keyword argument."""
    if isinstance(function, type):
        made: Any = function
        made.__init__ = _named(made.__init__, function.__name__)
        return function
    return cast(_Function, _named(function, function.__qualname__))


def _named(function: Callable[..., Any], title: str) -> Callable[..., Any]:
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    known = frozenset(names)

    @functools.wraps(function)
    def checked(*values: Any, **arguments: Any) -> Any:
        if not known.issuperset(arguments):
            unknown = next(name for name in arguments if name not in known)
            one_of(f"argument of {title}", unknown, names)
        return function(*values, **arguments)

    return checked


def _is_number(value: Any, kind: type) -> bool:
    """Return whether ``value`` is a number of type ``kind``; True and False do not count as numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def number(
    name: str, value: Any, *, low: float = -math.inf, high: float = math.inf, above: float | None = None
) -> float:
    """Return ``value`` as a float in [low, high] and, if ``above`` is given, greater than ``above``."""
    ends = [f"> {above:g}"] if above is not None else [f">= {low:g}"] if low > -math.inf else []
    ends += [f"<= {high:g}"] if high < math.inf else []
    allowed = " and ".join(["a number", *ends]).replace("number and", "number", 1)
    if not _is_number(value, numbers.Real):
        raise refuse(name, value, allowed)
    result = as_float(value)
    if not low <= result <= high or (above is not None and not result > above) or math.isnan(result):
        raise refuse(name, value, allowed)
    return result


def finite(
    name: str, value: Any, *, low: float = -math.inf, high: float = math.inf, above: float | None = None
) -> float:
    """Return ``value`` as a finite float in [low, high] and, if ``above`` is given, greater than ``above``."""
    result = number(name, value, low=low, above=above)
    if math.isinf(result):
        raise refuse(name, value, "finite")
    if result > high:
        raise refuse(name, value, f"at most {high:g}")
    return result


def at_least(name: str, value: Any, low: float) -> float:
    """Return ``value`` as a finite float >= ``low``; a value below ``low`` by a rounding error becomes ``low``."""
    return max(finite(name, value, low=low - abs(low) * ROUNDING), low)


def probability(name: str, value: Any) -> float:
    """Return ``value`` as a float in [0, 1], clipping a value that is outside by a rounding error."""
    if not _is_number(value, numbers.Real) or not -_PROBABILITY_ERROR <= value <= 1 + _PROBABILITY_ERROR:
        raise refuse(name, value, "a probability in [0, 1]")
    return min(max(float(value), 0.0), 1.0)


def below_one(name: str, value: Any) -> float:
    """Return ``value`` as a float in [0, 1)."""
    if not _is_number(value, numbers.Real) or not 0 <= value < 1 or float(value) == 1:
        raise refuse(name, value, "a fraction in [0, 1)")
    return float(value)


def share(name: str, value: Any) -> float:
    """Return ``value`` as a float in (0, 1]; a value above 1 by a rounding error becomes 1."""
    if not _is_number(value, numbers.Real) or not 0 < value <= 1 + _PROBABILITY_ERROR:
        raise refuse(name, value, "a fraction in (0, 1]")
    return min(float(value), 1.0)


def flag(name: str, value: Any) -> bool:
    """Return ``value``, a Python or numpy boolean, as a bool."""
    if not isinstance(value, bool | np.bool_):
        raise refuse(name, value, "True or False")
    return bool(value)


def integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int >= ``low`` and, if ``high`` is given, <= ``high``."""
    allowed = f"a whole number >= {low}" if high is None else f"a whole number from {low} to {high}"
    if not _is_number(value, numbers.Integral):
        raise refuse(name, value, allowed)
    result = int(value)
    if result < low or (high is not None and result > high):
        raise refuse(name, value, allowed)
    return result


def fits(name: str, value: Any, size: float, what: str) -> None:
    """Raise BadInput if an object that is about to be created would not fit in memory.

    ``size`` is a lower bound in bytes of the object's size; ``what`` names the object in the message. The limit is the
    smallest of the physical memory, the process's limits (``ulimit -v``, ``-d``) and its cgroup's limit. Memory already
    in use is not subtracted. On Windows every size is accepted.
    """
    if size <= _SMALL:
        return
    available = min(_memory(), default=sys.maxsize)
    if size > available:
        needs, has = (f"{_gib(each)} GiB" for each in (size, available))
        raise refuse(name, value, f"smaller; {what} would take {needs}, more than the {has} of memory here")


def _gib(size: float) -> str:
    whole = int(size) // 2**30
    return f"{size / 2**30:.2g}" if whole < 10 else f"{whole:,}" if whole < 10**15 else "more than 10**15"


def _memory() -> Iterator[int]:
    """Yield each memory limit of this process that the system reports, in bytes."""
    with suppress(AttributeError, ValueError, OSError):
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(ImportError):
        import resource

        limits = [resource.getrlimit(each)[0] for each in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        yield from (limit for limit in limits if limit != resource.RLIM_INFINITY)
    with suppress(OSError):
        group = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")
        room = Path("/sys/fs/cgroup")
        for each in (room / group, *(room / group).parents, room / "memory"):
            for file in ("memory.max", "memory.limit_in_bytes"):
                # If the cgroup has no limit, the file is missing or contains "max".
                with suppress(OSError, ValueError):
                    yield int((each / file).read_text())


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return ``value`` if it is in ``allowed``; the error message suggests the closest match.

    If ``value`` lists several allowed values with commas, the message says that only one can be given.
    """
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return str(value)
    if isinstance(value, str) and "," in value and {each.strip() for each in value.split(",")} <= set(names):
        raise refuse(name, value, f"one of {', '.join(names)}, not several with commas between")
    folded = {name.lower(): name for name in names}
    near = difflib.get_close_matches(str(value).lower(), folded, n=1, cutoff=0.5)
    hint = f" (did you mean {folded[near[0]]!r}?)" if near else ""
    raise refuse(name, value, f"one of {', '.join(names)}{hint}")


def each_one_of(name: str, values: Iterable[Any], allowed: Iterable[str]) -> None:
    """Raise BadInput for the first of ``values`` that is not in ``allowed``, as `one_of` does."""
    names = list(allowed)
    for value in values:
        one_of(name, value, names)


def mapping(name: str, value: Any) -> dict[Any, Any]:
    """Return ``value`` as a dict; raises BadInput if it is not a mapping."""
    if not isinstance(value, Mapping):
        raise refuse(name, value, "a mapping")
    return dict(value)


def pair(name: str, value: Any, of: str) -> tuple[Any, Any]:
    """Return ``value`` as a tuple of two elements; error messages describe the pair as ``of``, e.g. "(from, to)"."""
    try:
        one, other = value
    except (TypeError, ValueError):
        raise refuse(name, value, f"a pair {of}") from None
    return one, other


def timed(name: str, value: Any) -> list[tuple[float, Any]]:
    """Return ``value`` as a list of (time, value) pairs, with finite times >= 0 s."""
    of = "(time, value)"
    try:
        entries = [pair(f"{name}[{i}]", entry, of) for i, entry in enumerate(value)]
    except TypeError:
        raise refuse(name, value, f"pairs {of}") from None
    return [(finite(name, time, low=0), what) for time, what in entries]


def finite_array(name: str, value: Any) -> NDArray[np.float64]:
    """Return ``value`` as a float64 array without NaN or infinity; the error message gives the first invalid index."""
    try:
        if np.iscomplexobj(value):
            # numpy would silently discard the imaginary parts.
            raise TypeError
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise refuse(name, value, "an array of real numbers") from None
    finite = np.isfinite(array)
    if not finite.all():
        bad = np.argwhere(~finite)
        where = f"[{', '.join(str(int(i)) for i in bad[0])}]" if array.ndim else ""
        raise BadInput(f"{name}{where} = {array[tuple(bad[0])]}: must be finite ({len(bad)} such values)")
    return array


def position(name: str, value: Any) -> tuple[float, ...]:
    """Return ``value``, two or three finite numbers of metres, as a tuple of floats."""
    array = finite_array(name, value)
    if array.shape not in ((2,), (3,)):
        raise refuse(name, value, "(x, y) or (x, y, z) in metres")
    return tuple(array.tolist())


def vector(name: str, value: Any, *, flags: bool = False, scalar: bool = False) -> NDArray[np.float64]:
    """Return a copy of ``value`` as a finite float64 array of shape (n,).

    ``flags`` permits booleans, as 0 and 1; ``scalar`` permits a single number, as an array of one. Numbers written as
    text are refused.
    """
    allowed = "a number or an array of numbers, of shape (n,)" if scalar else "an array of numbers, of shape (n,)"
    try:
        given = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        # numpy refuses nested lists of different lengths.
        raise refuse(name, value, allowed) from None
    if given.ndim > 1 or (given.ndim == 0 and not scalar):
        raise refuse(name, value, allowed + (f"; its shape is {given.shape}" if given.ndim else ""))
    if given.dtype.kind in ("USmMV" if flags else "bUSmMV"):
        raise refuse(name, value, "an array of real numbers")
    return finite_array(name, value).reshape(-1).copy()


def measured(value: Any) -> float | None:
    """Return a measured value as an int or float (True becomes 1.0), or None if it is not a real number."""
    if type(value) is float:
        return value
    if isinstance(value, np.ndarray | np.generic) and value.size == 1:
        value = value.item()
    # Integers from 2**53 on become floats: a table's float64 columns could not hold them exactly.
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and abs(int(value)) < 2**53:
        return int(value)
    return as_float(value) if isinstance(value, numbers.Real) else None


def as_float(value: Any) -> float:
    """Convert a real number to float, with infinity for overflow."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def fields(
    frozen: object, checked: Callable[..., object], *names: str, optional: bool = False, **limits: object
) -> None:
    """Replace each named field of a frozen dataclass by the result of ``checked``; ``optional`` allows None."""
    for name in names:
        value = getattr(frozen, name)
        if value is not None or not optional:
            put(frozen, **{name: checked(name, value, **limits)})


def put(frozen: object, **values: object) -> None:
    """Set fields of a frozen dataclass, for use in its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
