"""Base class of transports, which carry datagrams between the processes of one network.

On the path agent → outbox → link → inbox → agent, a transport carries the frames of a link between two processes. The
link's model (`netsim.Link`) runs in the sender's process. It loses, delays and counts frames as in a simulation, with
the same random draws. The frame and its arrival time then travel to the receiver's process, where the frame waits until
that time.
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
"""{value of `netsim deploy --transport`: name of the transport's class}. The values also name modules."""


class Transport(ABC):
    """Carry datagrams to the other processes, without guarantees; pass a transport to `netsim.Network.run`.

    A subclass defines `open`, `send` and `close`. It calls `deliver` for each received datagram, and `fail` when it can
    no longer receive datagrams.

    Parameters
    ----------
    here : str
        The name of this process.
    peers : mapping
        {name: agents}: the agents of each other process. All other nodes of the graph run in this process.
    key : bytes, optional
        The secret that authenticates datagrams; it must be the same in all processes.
    pace : float
        Simulated seconds per real second.
    patience : float
        The longest time (real s) to wait for the other processes before a run, and for a frame while all agents of this
        process only wait for frames.
    silence : float
        Real seconds without a heartbeat after which another process counts as dead.
    folder : str or Path, optional
        Folder of this process's journal, for `netsim.distributed.merge_parts`; created if it does not exist.

    Attributes
    ----------
    most : int
        The maximum size of a datagram in bytes.
    failure : NetsimError or None
        The error made by the first call of `fail`; None before that call.

    Raises
    ------
    BadInput
        If an argument is invalid.
    """

    most: int = 1 << 20
    needs_broker = False
    """Whether the transport needs a broker; if so, a deployment must contain the broker's address."""

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
        self.here = _process_name("here", here)
        if not isinstance(peers, Mapping) or not peers:
            raise check.refuse("peers", peers, "a mapping {process: agents} of at least one process")
        self.peers = {_process_name("peers", name): _agent_names(name, agents) for name, agents in peers.items()}
        if self.here in self.peers:
            raise BadInput(f"peers = {self.here!r}: must be the other processes, without this one")
        if key is not None and (not isinstance(key, bytes) or len(key) < 16):
            raise BadInput("key: must be at least 16 bytes")
        self.key = key
        self.pace = check.finite("pace", pace, above=0)
        self.patience = check.finite("patience", patience, above=0)
        self.silence = check.finite("silence", silence, above=0)
        self.folder = None if folder is None else Path(folder)
        self._deliver: Callable[[bytes], None] | None = None
        self.failure: NetsimError | None = None
        # The number of this process's first run, above 0 if this process replaces a dead process of the same name.
        self.first_run = 0
        # The `netsim.distributed.membership.Membership`, created for the first run and used by all runs.
        self.membership: Any = None

    # --- defined by a subclass ----------------------------------------------------------------------------------------

    @abstractmethod
    async def open(self) -> None:
        """Start to carry datagrams on the running event loop; netsim calls `close` before it calls `open` again."""

    @abstractmethod
    def send(self, to: str, data: bytes) -> None:
        """Send a datagram to a process, without waiting; it may get lost."""

    @abstractmethod
    async def close(self) -> None:
        """Stop carrying datagrams, and release the sockets or connections made by `open`."""

    # --- used by deployments; the defaults are for processes with arbitrary names and without a broker ----------------

    @classmethod
    def local_addresses(cls, count: int) -> list[str]:
        """Return addresses for ``count`` processes on this machine."""
        return [f"p{number}" for number in range(1, count + 1)]

    @classmethod
    def is_local(cls, addresses: Sequence[str], broker: str) -> bool:
        """Return whether a deployment with these addresses, or this broker, stays on this machine."""
        return False

    @classmethod
    def of_deployment(
        cls, here: str, peers: Mapping[str, Iterable[Hashable]], broker: str, topic: str, **settings: Any
    ) -> "Transport":
        """Return the transport of a process; ``topic`` distinguishes deployments that use the same broker."""
        return cls(here, peers, **settings)

    # --- called by a subclass -----------------------------------------------------------------------------------------

    def deliver(self, data: bytes) -> None:
        """Pass a received datagram to netsim, which drops and counts a datagram that no peer has sent."""
        if self._deliver is not None:
            self._deliver(data)

    def fail(self, reason: str) -> None:
        """End the run with a NetsimError, because datagrams can no longer be carried; later calls have no effect."""
        self.failure = self.failure or NetsimError(reason)

    # --- called by netsim ---------------------------------------------------------------------------------------------

    def receive_with(self, deliver: Callable[[bytes], None] | None) -> None:
        """From now on, call ``deliver`` with each received datagram; None drops received datagrams."""
        self.failure = None
        self._deliver = deliver

    def __repr__(self) -> str:
        others = f"{len(self.peers)} other process" + ("es" if len(self.peers) > 1 else "")
        return f"<{type(self).__name__} at {self.here!r}, {others}>"


def transport_of(name: str) -> type[Transport]:
    """Return the class of a transport in `TRANSPORTS`; raises BadInput for an unknown name."""
    module = importlib.import_module(f"{__package__}.{check.one_of('transport', name, TRANSPORTS)}")
    found: type[Transport] = getattr(module, TRANSPORTS[name])
    return found


def _process_name(argument: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value.strip() or len(value) > 200:
        raise check.refuse(argument, value, "printable text of at most 200 characters")
    return str(value)


def _agent_names(process: str, agents: Any) -> tuple[Hashable, ...]:
    if isinstance(agents, str | bytes) or not isinstance(agents, Iterable) or inspect.isawaitable(agents):
        raise check.refuse(f"peers[{process!r}]", agents, "a list of agents' names")
    return tuple(agents)
