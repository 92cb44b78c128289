"""The errors that netsim raises. Every message is one line for the user."""

from collections.abc import Iterator
from typing import Any


class NetsimError(Exception):
    """Base of every error that netsim raises on purpose.

    Attributes
    ----------
    run : Run or None
        The run up to the error, if the error ended `Network.run`. Copies of the error, such as those sent to other
        processes, have None.
    """

    run: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Agents may hold objects that cannot be pickled.
        kept = {name: value for name, value in vars(self).items() if name != "run"}
        return (type(self), self.args, kept) if kept else (type(self), self.args)


class BadInput(NetsimError, ValueError):  # noqa: N818  named after the event
    """An invalid argument: the message gives its name, its value and the allowed values."""


class WireError(NetsimError):
    """Bytes that are not a frame, or a payload that cannot be encoded."""


class AgentError(NetsimError):
    """An agent raised, or used the network in an invalid way."""


class RunOver(AgentError):  # noqa: N818
    """An agent sent a message after the run's end; an uncaught one does not make the run fail."""


class Stalled(NetsimError):  # noqa: N818
    """Time cannot advance, for example because every task waits for an event that can never come."""


class Interrupted(KeyboardInterrupt):
    """An interrupt between two passes of a run's loop, after which the run can still be closed and counted."""


def one_line(error: BaseException) -> str:
    """Return an error's message without line breaks."""
    return " ".join(str(error).split())


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, then its cause, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
