"""The errors that netsim raises. Every message is one line that can be shown to a person as it stands."""

from collections.abc import Iterator
from typing import Any


class NetsimError(Exception):
    """Base of every error that netsim raises on purpose.

    Attributes
    ----------
    run : Run or None
        The run as far as it came, if the error ended `Network.run`. It stays in the process: a copy of the error, or
        one sent to another process, has none.
    """

    run: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Agents may hold objects that cannot be pickled.
        kept = {name: value for name, value in vars(self).items() if name != "run"}
        return (type(self), self.args, kept) if kept else (type(self), self.args)


class BadInput(NetsimError, ValueError):  # noqa: N818  names that say what happened
    """An argument that cannot be used: the message names it, its value and what is allowed."""


class WireError(NetsimError):
    """Bytes that are no frame, or a payload that cannot be encoded."""


class AgentError(NetsimError):
    """An agent raised, or used the network in a way that has no meaning."""


class RunOver(AgentError):  # noqa: N818
    """An agent sends after the run's end. It need not catch this, as when it only says goodbye: the run ends well."""


class Stalled(NetsimError):  # noqa: N818
    """Time cannot go on, as when every task waits for an event that cannot come. The message names both."""


class Interrupted(KeyboardInterrupt):
    """An interrupt between two steps of a run's loop: the run can still be closed and counted."""


def one_line(error: BaseException) -> str:
    """Return an error's message without line breaks."""
    return " ".join(str(error).split())


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
