"""The errors that netsim raises. Every message is one line that can be shown to a person as it stands."""


class NetsimError(Exception):
    """Base of every error that netsim raises on purpose."""


class BadInput(NetsimError, ValueError):  # noqa: N818  names that say what happened
    """An argument that cannot be used: the message names it, its value and what is allowed."""


class WireError(NetsimError):
    """Bytes that are no frame, or a payload that cannot be put on the wire."""


class AgentError(NetsimError):
    """An agent raised, or used the network in a way that has no meaning."""


class RunOver(AgentError):  # noqa: N818
    """An agent sends after the run's end. It may let this pass, as when it only says goodbye: the run ends well."""


class Stalled(NetsimError):  # noqa: N818
    """Time cannot go on, as when every task waits for what can never come. The message names who waits for what."""


def one_line(error: BaseException) -> str:
    """Return an error's message without line breaks."""
    return " ".join(str(error).split())
