"""Datagrams over MQTT: each process subscribes to a topic of its own with a broker, and publishes to the others'."""

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from netsim.clock.clock import Loop
from netsim.distributed.transport import Transport
from netsim.distributed.udp import address_of, is_loopback
from netsim.errors import BadInput, NetsimError, one_line
from netsim.util import check

__all__ = ["MQTT"]

# Bytes that may wait here for the broker to take them: what is more is lost.
_WAITING = 1 << 26
# Real seconds that an answer of the broker may take at most.
_ANSWER = 10.0


class MQTT(Transport):
    """A transport over an MQTT broker, with aiomqtt: quality of service 0, nothing is kept for an absent process.

    Parameters
    ----------
    broker : str
        Its address, as "127.0.0.1:1883".
    here : str
        The name of this process: a level of a topic, so without ``/``, ``+`` and ``#``.
    peers : mapping
        {name: agents}.
    topic : str
        Under which the processes have their topics: ``topic/name``.
    username, password : str, optional
        For the broker.
    tls : ssl.SSLContext, optional
        How the connection is encrypted; otherwise it is not.
    settings
        As `Transport` has them. With a broker beyond loopback there must be a ``key``.

    Raises
    ------
    BadInput
        If aiomqtt is not installed, a name cannot be part of a topic, the broker is beyond loopback and there is no
        key, or another argument cannot be used.
    """

    needs_broker = True

    def __init__(
        self,
        broker: str,
        here: str,
        peers: Mapping[str, Iterable[Hashable]],
        *,
        topic: str = "netsim",
        username: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(here, peers, **settings)
        self._aiomqtt = _library()
        self._broker = broker
        self._host, self._port = address_of("broker", broker)
        if self.key is None and not is_loopback(broker):
            raise BadInput(f"broker = {broker!r}: must be a loopback address, or come with a key: anybody could send")
        if not isinstance(topic, str) or not re.fullmatch(r"[^+#$\0][^+#\0]{0,199}", topic):
            raise check.refuse("topic", topic, "1 to 200 characters without + and #, the first not $")
        for argument, name in [("here", self.here), *(("peers", peer) for peer in self.peers)]:
            if re.search("[/+#]", name):
                raise check.refuse(argument, name, "a name without / + #: it is a level of a topic")
        self._topics = {name: f"{topic}/{name}" for name in [self.here, *self.peers]}
        self._login = {"username": username, "password": password, "tls_context": tls}
        self._client: Any = None
        self._paho: Any = None
        self._watching: asyncio.Task[None] | None = None
        # What the broker has not taken yet, and its bytes.
        self._waiting: deque[tuple[Any, int]] = deque()
        self._bytes = 0

    @classmethod
    def is_local(cls, addresses: Sequence[str], broker: str) -> bool:
        """Return whether the broker is."""
        return is_loopback(broker)

    @classmethod
    def of_deployment(
        cls, here: str, peers: Mapping[str, Iterable[Hashable]], broker: str, topic: str, **settings: Any
    ) -> "MQTT":
        """Return the transport of a process of a deployment."""
        return cls(broker, here, peers, topic=topic, **settings)

    async def open(self) -> None:
        """Connect and subscribe; raises NetsimError if the broker cannot be reached or refuses."""
        loop = asyncio.get_running_loop()
        # Time-outs are in the loop's seconds.
        speed = loop.clock.speed if isinstance(loop, Loop) else 1.0
        nodelay = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = self._aiomqtt.Client(
            self._host, self._port, timeout=min(self.patience, _ANSWER) * speed, socket_options=[nodelay], **self._login
        )
        # aiomqtt's own ways wait for each message that goes out, and make a task for each that comes in.
        self._paho = client._client
        self._paho.on_message = self._take
        # In paho's calls, the socket comes last.
        self._paho.on_socket_register_write = lambda *given: loop.call_soon_threadsafe(self._await_room, given[-1])
        # What is called when the socket can be written to belongs to no agent, though an agent sends.
        self._context = copy_context()
        try:
            await client.__aenter__()
            self._client = client
            codes = await client.subscribe(self._topics[self.here])
            if any(int(getattr(code, "value", code)) >= 128 for code in codes):
                raise NetsimError(f"broker = {self._broker!r}: refuses the topic {self._topics[self.here]!r}")
        except self._aiomqtt.MqttError as error:
            await self.close()
            raise NetsimError(f"broker = {self._broker!r}: cannot be reached ({_why(error)})") from None
        except BaseException:
            await self.close()
            raise
        self._watching = loop.create_task(self._watch(client))

    def send(self, to: str, data: bytes) -> None:
        """Publish a datagram; it is lost if too much waits already."""
        if self._watching is None or self._watching.done():
            return
        waiting = self._waiting
        while waiting and waiting[0][0].is_published():
            self._bytes -= waiting.popleft()[1]
        if self._bytes + len(data) <= _WAITING:
            info = self._context.run(self._paho.publish, self._topics[to], data)
            waiting.append((info, len(data)))
            self._bytes += len(data)

    async def close(self) -> None:
        """Send what waits, and disconnect."""
        watching, client, self._watching, self._client = self._watching, self._client, None, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
        if client is not None:
            with suppress(self._aiomqtt.MqttError):
                await client.__aexit__(None, None, None)
        self._waiting.clear()
        self._bytes = 0
        self._abandon()
        # What aiomqtt cancels ends in the loop's next pass.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _watch(self, client: Any) -> None:
        """Say so when the connection is lost; messages come by another way."""
        try:
            async for _ in client.messages:
                pass
        except self._aiomqtt.MqttError as error:
            self.fail(f"broker = {self._broker!r}: the connection was lost ({_why(error.__cause__ or error)})")

    def _take(self, client: Any, userdata: Any, message: Any) -> None:
        self.deliver(message.payload)

    def _await_room(self, link: Any) -> None:
        """Write when the socket takes something; aiomqtt would also wait for one that was closed meanwhile."""
        if self._paho is not None and link.fileno() >= 0:
            asyncio.get_running_loop().add_writer(link.fileno(), self._paho.loop_write)

    def _abandon(self) -> None:
        """Close the socket if that is still open: the broker did not answer."""
        left = None if self._paho is None else self._paho.socket()
        self._paho = None
        if left is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(left)
            loop.remove_writer(left)
            left.close()


def _library() -> Any:
    try:
        import aiomqtt
    except ImportError:
        how = "in netsim's clone, pip install '.[mqtt]'"
        raise BadInput(f"netsim.MQTT: must go with aiomqtt, which is not installed: {how}") from None
    return aiomqtt


def _why(error: BaseException) -> str:
    """Return a reason without the number that comes before it."""
    why = re.sub(r"^\[(Errno|code:) ?-?\d+\] ", "", one_line(error)) or type(error).__name__
    # All that is known of a socket that was closed at the other end.
    return "closed by the broker" if why == "Unspecified error" else why
