"""Transport over MQTT: each process subscribes to its topic at a broker, and publishes to the peers' topics."""

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

# Maximum size, in bytes, of the queue of publications; further datagrams are lost.
_MAX_QUEUED = 1 << 26
# Real seconds to wait for the broker's answer.
_TIMEOUT = 10.0


class MQTT(Transport):
    """Transport over an MQTT broker. It uses aiomqtt with quality of service 0 and without retained messages.

    Parameters
    ----------
    broker : str
        The broker's address, for example "127.0.0.1:1883".
    here : str
        The name of this process. It is a level of an MQTT topic, so it must not contain ``/``, ``+`` or ``#``.
    peers : mapping
        {name: agents}: the agents of each other process.
    topic : str
        Prefix of the processes' topics, which are ``topic/name``.
    username, password : str, optional
        Credentials for the broker.
    tls : ssl.SSLContext, optional
        Settings for an encrypted connection.
    settings
        Parameters of `Transport`. ``key`` is required unless the broker is on a loopback address.

    Raises
    ------
    BadInput
        If aiomqtt is not installed, a name cannot be part of a topic, a key is required and missing, or another
        argument is invalid.
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
        self._aiomqtt = _import_aiomqtt()
        self._broker = broker
        self._host, self._port = address_of("broker", broker)
        if self.key is None and not is_loopback(broker):
            raise BadInput(f"broker = {broker!r}: must be a loopback address unless a key is given: anybody could send")
        if not isinstance(topic, str) or not re.fullmatch(r"[^+#$\0][^+#\0]{0,199}", topic):
            raise check.refuse("topic", topic, "1 to 200 characters without + and #, the first not $")
        for argument, name in [("here", self.here), *(("peers", peer) for peer in self.peers)]:
            if re.search("[/+#]", name):
                raise check.refuse(argument, name, "a name without / + #: it is a level of a topic")
        self._topics = {name: f"{topic}/{name}" for name in [self.here, *self.peers]}
        self._login = {"username": username, "password": password, "tls_context": tls}
        self._client: Any = None
        self._paho: Any = None
        self._watch_task: asyncio.Task[None] | None = None
        # Publications that have not been sent yet, with their sizes in bytes.
        self._queue: deque[tuple[Any, int]] = deque()
        self._queued_bytes = 0

    @classmethod
    def is_local(cls, addresses: Sequence[str], broker: str) -> bool:
        """Return whether the broker is on this machine."""
        return is_loopback(broker)

    @classmethod
    def of_deployment(
        cls, here: str, peers: Mapping[str, Iterable[Hashable]], broker: str, topic: str, **settings: Any
    ) -> "MQTT":
        """Return the transport of one process of a deployment."""
        return cls(broker, here, peers, topic=topic, **settings)

    async def open(self) -> None:
        """Connect to the broker and subscribe; raises NetsimError if this fails."""
        loop = asyncio.get_running_loop()
        # aiomqtt measures its timeouts in seconds of the event loop, which may be simulated seconds.
        pace = loop.clock.pace if isinstance(loop, Loop) else 1.0
        nodelay = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = self._aiomqtt.Client(
            self._host,
            self._port,
            timeout=min(self.patience, _TIMEOUT) * pace,
            socket_options=[nodelay],
            **self._login,
        )
        # Use aiomqtt's private paho client, because it is faster: aiomqtt's public methods await each publication, and
        # put each received message into a queue.
        self._paho = client._client
        self._paho.on_message = self._on_message
        # paho calls this function with the socket as the last argument.
        self._paho.on_socket_register_write = lambda *args: loop.call_soon_threadsafe(self._await_writable, args[-1])
        # `send` publishes in this context: callbacks that paho schedules must not run in the context of the sending
        # agent.
        self._context = copy_context()
        try:
            await client.__aenter__()
            self._client = client
            codes = await client.subscribe(self._topics[self.here])
            if any(int(getattr(code, "value", code)) >= 128 for code in codes):
                raise NetsimError(f"broker = {self._broker!r}: refuses the topic {self._topics[self.here]!r}")
        except self._aiomqtt.MqttError as error:
            await self.close()
            raise NetsimError(f"broker = {self._broker!r}: cannot be reached ({_reason(error)})") from None
        except BaseException:
            await self.close()
            raise
        self._watch_task = loop.create_task(self._watch(client))

    def send(self, to: str, data: bytes) -> None:
        """Publish a datagram; it is lost if the queue is full."""
        if self._watch_task is None or self._watch_task.done():
            return
        queue = self._queue
        while queue and queue[0][0].is_published():
            self._queued_bytes -= queue.popleft()[1]
        if self._queued_bytes + len(data) <= _MAX_QUEUED:
            info = self._context.run(self._paho.publish, self._topics[to], data)
            queue.append((info, len(data)))
            self._queued_bytes += len(data)

    async def close(self) -> None:
        """Send the queued datagrams, and disconnect from the broker."""
        watch_task, client, self._watch_task, self._client = self._watch_task, self._client, None, None
        if watch_task is not None:
            watch_task.cancel()
            await asyncio.wait([watch_task])
        if client is not None:
            with suppress(self._aiomqtt.MqttError):
                await client.__aexit__(None, None, None)
        self._queue.clear()
        self._queued_bytes = 0
        self._close_socket()
        # aiomqtt has cancelled its tasks. Let them end in two loop iterations: a task that is still pending when the
        # loop closes causes a warning.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _watch(self, client: Any) -> None:
        """Wait for the end of the connection, and report it; `_on_message` receives the messages."""
        try:
            async for _ in client.messages:
                pass
        except self._aiomqtt.MqttError as error:
            self.fail(f"broker = {self._broker!r}: the connection was lost ({_reason(error.__cause__ or error)})")

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        self.deliver(message.payload)

    def _await_writable(self, sock: Any) -> None:
        """Let paho send once the socket is writable; unlike aiomqtt's callback, this accepts a closed socket."""
        if self._paho is not None and sock.fileno() >= 0:
            asyncio.get_running_loop().add_writer(sock.fileno(), self._paho.loop_write)

    def _close_socket(self) -> None:
        """Close the socket, which paho leaves open if the broker did not answer."""
        left = None if self._paho is None else self._paho.socket()
        self._paho = None
        if left is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(left)
            loop.remove_writer(left)
            left.close()


def _import_aiomqtt() -> Any:
    try:
        import aiomqtt
    except ImportError:
        how = "in netsim's clone, pip install '.[mqtt]'"
        raise BadInput(f"netsim.MQTT: must go with aiomqtt, which is not installed: {how}") from None
    return aiomqtt


def _reason(error: BaseException) -> str:
    """Return an error's text, without the error number."""
    reason = re.sub(r"^\[(Errno|code:) ?-?\d+\] ", "", one_line(error)) or type(error).__name__
    # aiomqtt reports "Unspecified error" if the broker has closed the socket.
    return "closed by the broker" if reason == "Unspecified error" else reason
