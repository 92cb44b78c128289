"""A transport: what carries datagrams between the processes that run the agents of one network.

agent → outbox → link → inbox → agent: you are on the link, between two processes. A link's model stays with the sender:
it loses, delays and counts as in a simulation, and draws the same. What leaves it goes to the receiver's process with
the time at which it is to arrive, and waits there until then.
"""

import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.errors import BadInput, NetsimError
from netsim.util import check

__all__ = ["TRANSPORTS", "Transport", "transport_of"]

TRANSPORTS = {"udp": "UDP", "mqtt": "MQTT"}
"""What `netsim deploy --transport` takes: a module of this package, and its class."""


class Transport(ABC):
    """Carries datagrams to the other processes, best effort; give it to `netsim.Network.run`.

    A subclass writes `open`, `send` and `close`, and calls `deliver` with what comes, `fail` when nothing can come.

    Parameters
    ----------
    here : str
        The name of this process.
    peers : mapping
        {name: agents}: the other processes, and the agents that run there. All others of the graph run here.
    key : bytes, optional
        By which datagrams are authenticated; the same in all processes.
    pace : float
        Simulated seconds that pass in a real one.
    patience : float
        Real seconds that this process waits for the others before a run, and for a frame while agents can do nothing
        else.
    silence : float
        Real seconds after which a process that says nothing is taken to be dead.
    folder : str or Path, optional
        Where what happens here is written as it goes, for `netsim.distributed.merge_parts`; it is made if need be.

    Attributes
    ----------
    most : int
        Bytes of a datagram that it carries at most.
    failure : NetsimError or None
        What `fail` was given.

    Raises
    ------
    BadInput
        If an argument cannot be used.
    """

    most: int = 1 << 20
    needs_broker = False
    """Whether processes reach each other by a broker, whose address then goes with a deployment."""

    def __init__(
        self,
        here: str,
        peers: Mapping[str, Iterable[Hashable]],
        *,
        key: bytes | None = None,
        pace: float = 1.0,
        patience: float = 60.0,
        silence: float = 5.0,
        folder: str | Path | None = None,
    ) -> None:
        self.here = _name("here", here)
        if not isinstance(peers, Mapping) or not peers:
            raise check.refuse("peers", peers, "a mapping {process: agents} of at least one process")
        self.peers = {_name("peers", name): _names(name, agents) for name, agents in peers.items()}
        if self.here in self.peers:
            raise BadInput(f"peers = {self.here!r}: must be the other processes, not this one too")
        if key is not None and (not isinstance(key, bytes) or len(key) < 16):
            raise BadInput("key: must be at least 16 bytes")
        self.key = key
        self.pace = check.finite("pace", pace, above=0)
        self.patience = check.finite("patience", patience, above=0)
        self.silence = check.finite("silence", silence, above=0)
        self.folder = None if folder is None else Path(folder)
        self._deliver: Callable[[bytes], None] | None = None
        self.failure: NetsimError | None = None
        # The number of the first run, of one that goes on where another of the same name was.
        self.first_run = 0
        # This process among the others, from its first run to its last.
        self.membership: Any = None

    # --- what a subclass writes ---------------------------------------------------------------------------------------

    @abstractmethod
    async def open(self) -> None:
        """Begin to carry datagrams, on the running event loop; called again for each run, after `close`."""

    @abstractmethod
    def send(self, to: str, data: bytes) -> None:
        """Send a datagram to a process, without waiting; it may get lost."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of what `open` took."""

    # --- what a deployment asks of a subclass: by default as of processes that have names, and no broker --------------

    @classmethod
    def local_addresses(cls, count: int) -> list[str]:
        """Return addresses for ``count`` processes on this machine."""
        return [f"p{number}" for number in range(1, count + 1)]

    @classmethod
    def is_local(cls, addresses: Sequence[str], broker: str) -> bool:
        """Return whether a deployment with these addresses, or this broker, is on this machine only."""
        return False

    @classmethod
    def of_deployment(
        cls, here: str, peers: Mapping[str, Iterable[Hashable]], broker: str, topic: str, **settings: Any
    ) -> "Transport":
        """Return the transport of a process; ``topic`` is a name that deployments with one broker do not share."""
        return cls(here, peers, **settings)

    # --- what it calls ------------------------------------------------------------------------------------------------

    def deliver(self, data: bytes) -> None:
        """Take in a datagram that came: what no peer has sent is dropped and counted."""
        if self._deliver is not None:
            self._deliver(data)

    def fail(self, why: str) -> None:
        """Say in one line why nothing can be carried any more: the run ends with it. The first reason counts."""
        self.failure = self.failure or NetsimError(why)

    # --- what netsim calls --------------------------------------------------------------------------------------------

    def receive_with(self, deliver: Callable[[bytes], None] | None) -> None:
        """Hand what comes to a function; None: drop it."""
        self.failure = None
        self._deliver = deliver

    def __repr__(self) -> str:
        others = f"{len(self.peers)} other process" + ("es" if len(self.peers) > 1 else "")
        return f"<{type(self).__name__} at {self.here!r}, {others}>"


def transport_of(name: str) -> type[Transport]:
    """Return the class of `TRANSPORTS` of a name; raises BadInput if there is none."""
    module = importlib.import_module(f"{__package__}.{check.one_of('transport', name, TRANSPORTS)}")
    found: type[Transport] = getattr(module, TRANSPORTS[name])
    return found


def _name(argument: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value.strip() or len(value) > 200:
        raise check.refuse(argument, value, "printable text of at most 200 characters")
    return str(value)


def _names(process: str, agents: Any) -> tuple[Hashable, ...]:
    if isinstance(agents, str | bytes) or not isinstance(agents, Iterable) or inspect.isawaitable(agents):
        raise check.refuse(f"peers[{process!r}]", agents, "a list of agents' names")
    return tuple(agents)
