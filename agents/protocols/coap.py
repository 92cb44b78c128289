"""CoAP between motes: the client and the server of aiocoap, with netsim's frames instead of UDP."""

import ast
import asyncio
from collections.abc import Hashable, Mapping
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import quote, unquote

import numpy as np

from netsim.agents.papers import COAP as PAPER
from netsim.agents.protocols.kinds import Form, Speaker
from netsim.agents.protocols.rpl import RPL
from netsim.draw import Stack
from netsim.util import check
from netsim.util.short_text import cut

check.installed("CoAP", "aiocoap", "coap")

import aiocoap  # noqa: E402  after the check, whose error says what to install
from aiocoap import blockwise, error, interfaces, messagemanager, protocol, resource, tokenmanager  # noqa: E402

__all__ = ["KIND", "Address", "CoAP"]

KIND = "coap"
"""The kind of CoAP's frames. A payload is a message in the encoding of RFC 7252, as sent over UDP on port 5683."""

_STREAM: ContextVar[np.random.Generator | None] = ContextVar("_STREAM", default=None)


class _Draws:
    """Replaces aiocoap's ``random`` module: while `_STREAM` is set, it draws from this generator of a node."""

    def __init__(self, otherwise: Any) -> None:
        self._otherwise = otherwise

    def randint(self, low: int, high: int) -> int:
        stream = _STREAM.get()
        return int(self._otherwise.randint(low, high) if stream is None else stream.integers(low, high, endpoint=True))

    def uniform(self, low: float, high: float) -> float:
        stream = _STREAM.get()
        return float((self._otherwise if stream is None else stream).uniform(low, high))


class _InOrder(dict[Any, None]):
    """Replaces aiocoap's set of observers, so that they are notified in the order of registration."""

    def add(self, observer: Any) -> None:
        self[observer] = None

    def remove(self, observer: Any) -> None:
        del self[observer]


class _Transfers(blockwise.TimeoutDict[Any, Any]):  # type: ignore[misc]
    """Replaces aiocoap's table of transfers in progress. A copy of it is empty, because timers cannot be copied."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(type(self)(self.timeout))}


# aiocoap draws message IDs, tokens and timeouts from the global generator, reads the wall clock to distinguish old from
# new notifications, and notifies observers in the order of their addresses in memory. It has no parameters to change
# this, so the names are replaced in its modules. Contexts outside netsim work as before.
for _module in (messagemanager, tokenmanager):
    vars(_module)["random"] = _Draws(vars(_module)["random"])
vars(protocol)["time"] = SimpleNamespace(time=lambda: asyncio.get_running_loop().time())
vars(resource)["set"] = _InOrder
vars(blockwise)["TimeoutDict"] = _Transfers


class Address(interfaces.EndpointAddress):  # type: ignore[misc]
    """A remote node's address in aiocoap; it also holds the name of the local node."""

    scheme = "coap"
    is_multicast = is_multicast_locally = False
    # The base class defines these as properties.
    blockwise_key: Hashable = None
    hostinfo = hostinfo_local = uri_base = uri_base_local = ""
    maximum_payload_size = maximum_block_size_exp = 0

    def __init__(self, node: Hashable, own: Hashable, block: int) -> None:
        self.node = self.blockwise_key = node
        self.hostinfo, self.hostinfo_local = _host(node), _host(own)
        self.uri_base, self.uri_base_local = f"coap://{self.hostinfo}", f"coap://{self.hostinfo_local}"
        self.maximum_payload_size, self.maximum_block_size_exp = block, block.bit_length() - 5

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)

    def __repr__(self) -> str:
        return self.hostinfo


def _host(node: Hashable) -> str:
    return quote(str(node), safe="")


def _literal(text: str) -> Hashable:
    """Return the hashable value, such as a number or a tuple, whose Python literal is ``text``; otherwise ``text``."""
    try:
        name: Hashable = ast.literal_eval(text)
        hash(name)
    except (SyntaxError, TypeError, ValueError):
        return text
    return name


class _Manager(messagemanager.MessageManager):  # type: ignore[misc]
    """aiocoap's message layer, in which timeouts come from the node's generator, whichever task sends a message."""

    def __init__(self, tokens: tokenmanager.TokenManager, stream: np.random.Generator) -> None:
        self._stream = stream
        super().__init__(tokens)

    def _add_exchange(self, message: aiocoap.Message, monitor: Any) -> None:
        before = _STREAM.set(self._stream)
        try:
            super()._add_exchange(message, monitor)
        finally:
            _STREAM.reset(before)

    @property
    def is_shut_down(self) -> bool:
        """Whether the application has shut the context down."""
        return self._active_exchanges is None

    def stop(self) -> None:
        """Cancel all timers, so that none sends a message after the run."""
        for timers in (self._active_exchanges or {}, self._piggyback_opportunities):
            for _, timer in timers.values():
                timer.cancel()


class _Frames(interfaces.MessageInterface):  # type: ignore[misc]
    """Queues the messages that aiocoap wants to send; the node sends them as frames."""

    def __init__(self, node: "CoAP") -> None:
        self._node = node
        self.waiting: asyncio.Queue[aiocoap.Message] = asyncio.Queue()

    def send(self, message: aiocoap.Message) -> None:
        self.waiting.put_nowait(message)

    async def recognize_remote(self, remote: Any) -> bool:
        return isinstance(remote, Address)

    async def determine_remote(self, message: aiocoap.Message) -> Address:
        address = self._node.address_of(message.remote.hostinfo)
        # The host in the URI is the node's address, so the Uri-Host option is redundant, as for a literal IP address.
        message.opt.uri_host = None
        return address

    async def shutdown(self) -> None:
        """Do nothing, because there is no socket to close."""


class CoAP(Speaker):
    """A client and a server of CoAP by aiocoap, whose messages are frames of a network.

    `context` is an ``aiocoap.Context``. Requests, observations and block-wise transfers work as in aiocoap's
    documentation, with the name of a neighbour as the host: ``coap://7/temperature``. In a mote with a part
    `netsim.agents.RPL` with downward routes, requests reach all nodes, over several hops. aiocoap uses the simulated
    time and the node's random numbers.

    Parameters
    ----------
    site : aiocoap.resource.Resource, optional
        The resources of the node's server, such as an ``aiocoap.resource.Site``. If None, the node is only a client.
    block : int
        The largest payload of a message in bytes, a power of two from 16 to 1024. Larger bodies are sent in blocks.

    Attributes
    ----------
    context : aiocoap.Context or None
        The object that makes requests while the node runs; None before and after.
    foreign : Counter
        The number of received frames that were ignored, by kind, including malformed CoAP messages.

    Notes
    -----
    Sources: RFC 7252 (CoAP), RFC 7641 (observe), RFC 7959 (blocks). If a server crashes after it has acknowledged a
    request, the client waits for ever: use ``asyncio.timeout``.
    """

    paper: ClassVar[str] = PAPER
    draw: ClassVar = {"requests": Stack(lambda a: a._open_requests)}
    kinds: ClassVar[Mapping[str, Form]] = {KIND: lambda payload: type(payload) is bytes}

    def __init__(self, site: Any = None, *, block: int = 64) -> None:
        super().__init__()
        check.instance("site", site, interfaces.Resource, "a resource of aiocoap's, such as a Site", optional=True)
        self.site = site
        self.block = check.integer("block", block, low=16, high=1024)
        if block & (block - 1):
            raise check.refuse("block", block, "a power of two")
        self.context: aiocoap.Context | None = None

    # --- addresses ----------------------------------------------------------------------------------------------------

    def uri(self, node: Hashable, path: str = "") -> str:
        """Return the URI of a resource of a node: ``uri((0, 1), "t")`` is ``coap://%280%2C%201%29/t``."""
        return f"coap://{_host(node)}/{path}"

    def address_of(self, host: str) -> Address:
        """Return the address of the node named ``host`` in a URI; raise aiocoap's ResolutionError if there is none."""
        text = unquote(host.removesuffix(":5683"))
        found = [node for node in self.neighbors if str(node) == text]
        if self._routing is not None and not found:
            found = [text if isinstance(self.name, str) else _literal(text)]
        if len(found) != 1:
            shown = ", ".join(map(repr, self.neighbors[:8]))
            what = f"{len(found)} neighbours are named {text}" if found else f"no neighbour is named {text}"
            raise error.ResolutionError(f"node {self.name!r}: {what}; its neighbours are {shown or 'none'}")
        return Address(found[0], self.name, self.block)

    @property
    def _open_requests(self) -> int:
        """The number of this node's unanswered requests, including observations."""
        tokens = self.context.request_interfaces[0] if self.context is not None else None
        # outgoing_requests is None after the context was shut down.
        return len(tokens.outgoing_requests or ()) if tokens is not None else 0

    @property
    def _routing(self) -> Any:
        """The part of the mote that routes datagrams over several hops; if None, requests reach only neighbours."""
        parts = self.mote.parts.values() if hasattr(self, "mote") else ()
        return next((each for each in parts if isinstance(each, RPL) and each.downward), None)

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Exchange the messages of aiocoap's client and server with other nodes."""
        _STREAM.set(self.rng)
        context = aiocoap.Context(loop=asyncio.get_running_loop(), serversite=self.site)
        tokens = tokenmanager.TokenManager(context)
        tokens.token_interface = manager = _Manager(tokens, self.rng)
        manager.message_interface = frames = _Frames(self)
        context.request_interfaces.append(tokens)
        self.context = context
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send(frames.waiting))
                await self._listen(manager)
                sending.cancel()
        finally:
            manager.stop()
            self.context = None

    async def _send(self, waiting: "asyncio.Queue[aiocoap.Message]") -> None:
        while True:
            message = await waiting.get()
            to, routing = message.remote.node, self._routing
            if routing is not None:
                routing.datagram(to, message.encode(), KIND)
            # On a one-way link a request may arrive from a node to which no reply can be sent: drop the reply.
            elif to in self.neighbors:
                await self.send(to, KIND, message.encode(), label=_said(message))

    async def _listen(self, manager: _Manager) -> None:
        async for frame in self.inbox:
            if manager.is_shut_down:
                return
            if not self.is_own(frame):
                continue
            try:
                message = aiocoap.Message.decode(frame.payload, Address(frame.sender, self.name, self.block))
            except (error.Error, ValueError):
                self.foreign[frame.kind] += 1
                continue
            manager.dispatch_message(message)


def _said(message: aiocoap.Message) -> str:
    """Return a message's label for replays, such as "CON GET temperature" or "ACK 2.05 Content"."""
    code = "" if message.code is aiocoap.EMPTY else str(message.code)
    words = " ".join(filter(None, (message.mtype.name, code, "/".join(message.opt.uri_path))))
    return cut("".join(each for each in words if each.isprintable()), 40)
