"""Kinds of frames: which a protocol takes, and the form of their payloads. All others it ignores, and counts."""

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
    """Accept what may name a node: what has a hash and equals itself."""
    try:
        hash(value)
        return bool(value == value)
    except Exception:  # a class of somebody's, whose methods may raise anything
        return False


def whole(low: int, high: int) -> Form:
    """Return a form of whole numbers within two limits."""
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def number(low: float, high: float = math.inf) -> Form:
    """Return a form of finite numbers within two limits."""

    def form(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and low <= value <= high and value < math.inf

    return form


def maybe(form: Form) -> Form:
    """Return a form of None, and of what has another form."""
    return lambda value: value is None or form(value)


def fields(*forms: Form) -> Form:
    """Return a form of lists whose elements have these forms, in order."""

    def form(value: Any) -> bool:
        # Only lists and tuples are looked into: an array or a dict may raise where it is compared.
        return (
            isinstance(value, list | tuple)
            and len(value) == len(forms)
            and all(each(part) for each, part in zip(forms, value, strict=True))
        )

    return form


class Speaker(Cited, netsim.Part):
    """Base of protocols that share the air with others: each takes the frames of its own kinds.

    Attributes
    ----------
    kinds : mapping
        Of the class: {kind: form} of the frames that are its own. A form is a function that tells whether a payload is
        as the protocol sends it.
    foreign : Counter
        By kind, the frames that it heard and ignored: of other kinds, or of its own with a payload of another form.
    """

    kinds: ClassVar[Mapping[str, Form]] = {}

    def __init__(self) -> None:
        self.foreign: Counter[str] = Counter()

    async def _until(self, time: float) -> None:
        await asyncio.sleep(max(0.0, time - self.now))

    def is_own(self, frame: netsim.Frame | netsim.mote.Message) -> bool:
        """Return whether a frame is for this protocol, and count it if not."""
        form = self.kinds.get(frame.kind)
        if form is not None and form(frame.payload):
            return True
        self.foreign[frame.kind] += 1
        return False
