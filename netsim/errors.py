"""The exceptions that netsim raises; each message is a single line that addresses the user."""

from collections.abc import Iterator
from typing import Any


class NetsimError(Exception):
    """Base of every error that netsim raises on purpose.

    Attributes
    ----------
    run : Run or None
        The partial run, if the error ended `Network.run`. Copies of the error, also those sent to other processes, lack
        it.
    """

    run: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Drop the run, because its agents may hold objects that cannot be pickled.
        kept = {name: value for name, value in vars(self).items() if name != "run"}
        return (type(self), self.args, kept) if kept else (type(self), self.args)


class BadInput(NetsimError, ValueError):  # noqa: N818  named after the event
    """An invalid argument: the message gives its name, its value and the allowed values."""

    def __str__(self) -> str:
        # A value from a user's file, such as a column's name, may contain line breaks.
        return " ".join(super().__str__().splitlines())


class WireError(NetsimError):
    """Bytes cannot be decoded as a frame, or a payload cannot be encoded."""


class AgentError(NetsimError):
    """An agent raised, or used the network in an invalid way."""


class RunOver(AgentError):  # noqa: N818
    """An agent sent a message after the run's end; if the agent does not catch this error, the run still succeeds."""


class Stalled(NetsimError):  # noqa: N818
    """Time cannot advance, for example because every task waits for an event that can never come."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C between two iterations of a run's event loop; the run's counts remain consistent and can be reported."""


def one_line(error: BaseException) -> str:
    """Return an error's message without line breaks."""
    return " ".join(str(error).split())


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause's cause, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
