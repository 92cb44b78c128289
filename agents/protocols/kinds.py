"""Kinds of frames that a protocol accepts, and the forms of their payloads; other frames are ignored and counted."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import netsim
from netsim.agents.papers import Cited

__all__ = ["Form", "Speaker", "anything", "fields", "flag", "is_name", "maybe", "nothing", "number", "whole"]

Form = Callable[[Any], bool]
"""A function that returns whether a payload, or a field of it, is well-formed.

A received payload can be any object, such as an array or a dict, so a form must never raise an error. Match statements
are not used, because a sequence pattern would also match an array.
"""


def anything(value: Any) -> bool:
    """Accept every value."""
    return True


def nothing(value: Any) -> bool:
    """Accept None."""
    return value is None


def flag(value: Any) -> bool:
    """Accept True and False."""
    return isinstance(value, bool)


def is_name(value: Any) -> bool:
    """Accept any value that can be a node's name: a hashable value that equals itself."""
    try:
        hash(value)
        return bool(value == value)
    except Exception:  # methods of an unknown class may raise any error
        return False


def whole(low: int, high: int) -> Form:
    """Return a form that accepts integers from ``low`` to ``high``."""
    # type() instead of isinstance(), because bool is a subclass of int.
    return lambda value: type(value) is int and low <= value <= high


def number(low: float, high: float = math.inf) -> Form:
    """Return a form that accepts finite numbers from ``low`` to ``high``."""

    def form(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and low <= value <= high and value < math.inf

    return form


def maybe(form: Form) -> Form:
    """Return a form that accepts None and all values that ``form`` accepts."""
    return lambda value: value is None or form(value)


def fields(*forms: Form) -> Form:
    """Return a form that accepts lists whose elements have the given forms, in this order."""

    def form(value: Any) -> bool:
        # Inspect only lists and tuples, because comparing an array or a dict may raise.
        if not isinstance(value, list | tuple) or len(value) != len(forms):
            return False
        for each, part in zip(forms, value, strict=True):  # noqa: SIM110 (called for each frame heard)
            if not each(part):
                return False
        return True

    return form


class Speaker(Cited, netsim.Part):
    """Base of protocols that share the medium with other protocols: each accepts only frames of its ``kinds``.

    Attributes
    ----------
    kinds : mapping
        Class attribute, {kind: form} of the protocol's frames. A form is a function that returns whether a payload is
        well-formed.
    foreign : Counter
        The number of ignored frames by kind: frames of other protocols, or frames with a malformed payload.
    """

    kinds: ClassVar[Mapping[str, Form]] = {}

    def __init__(self) -> None:
        self.foreign: Counter[str] = Counter()

    async def _until(self, time: float) -> None:
        await asyncio.sleep(max(0.0, time - self.now))

    def is_own(self, frame: netsim.Frame | netsim.mote.Message) -> bool:
        """Return whether a frame is a well-formed frame of this protocol; if not, count it in ``foreign``."""
        form = self.kinds.get(frame.kind)
        if form is not None and form(frame.payload):
            return True
        self.foreign[frame.kind] += 1
        return False
