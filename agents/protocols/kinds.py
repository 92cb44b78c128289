"""Kinds of frames that a protocol accepts, and the forms of their payloads; others are ignored and counted."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import netsim
from netsim.agents.papers import Cited

__all__ = ["Form", "Speaker", "anything", "fields", "flag", "is_name", "maybe", "nothing", "number", "whole"]

Form = Callable[[Any], bool]
"""Says whether a payload, or a part of one, is as a protocol sends it.

A payload comes from anybody and may be anything, an array or a dict too, so a form must not raise; patterns would take
arrays for sequences.
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
    """Accept a possible name of a node: a hashable value that equals itself."""
    try:
        hash(value)
        return bool(value == value)
    except Exception:  # the methods of a foreign class may raise anything
        return False


def whole(low: int, high: int) -> Form:
    """Return a form of whole numbers within two limits."""
    # A decoded payload contains no subclass of int.
    return lambda value: type(value) is int and low <= value <= high


def number(low: float, high: float = math.inf) -> Form:
    """Return a form of finite numbers within two limits."""

    def form(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and low <= value <= high and value < math.inf

    return form


def maybe(form: Form) -> Form:
    """Return a form that accepts None, and values of another form."""
    return lambda value: value is None or form(value)


def fields(*forms: Form) -> Form:
    """Return a form of lists whose elements have these forms, in order."""

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
    """Base of protocols that share the medium with others: each accepts frames of its own kinds.

    Attributes
    ----------
    kinds : mapping
        Class attribute, {kind: form} of the protocol's frames. A form is a function that returns whether a payload is
        well-formed.
    foreign : Counter
        The number of received frames that were ignored, by kind: of foreign kinds, or with a payload of the wrong form.
    """

    kinds: ClassVar[Mapping[str, Form]] = {}

    def __init__(self) -> None:
        self.foreign: Counter[str] = Counter()

    async def _until(self, time: float) -> None:
        await asyncio.sleep(max(0.0, time - self.now))

    def is_own(self, frame: netsim.Frame | netsim.mote.Message) -> bool:
        """Return whether a frame belongs to this protocol; count it if not."""
        form = self.kinds.get(frame.kind)
        if form is not None and form(frame.payload):
            return True
        self.foreign[frame.kind] += 1
        return False
