"""Transport over UDP. It is faster than asyncio's endpoints, because it reads many datagrams per loop iteration."""

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from netsim.distributed.transport import Transport
from netsim.errors import BadInput, NetsimError, one_line
from netsim.util import check

__all__ = ["UDP", "address_of", "is_loopback"]

_MAX_DATAGRAM = 65_507
# The requested size of the socket's buffers in bytes. They must hold bursts, and the datagrams that arrive while the
# process computes.
_BUFFER = 1 << 22
_FORCE = 33  # SO_RCVBUFFORCE, which Python does not name
# Maximum number of datagrams received per loop iteration, so that other callbacks can run in between.
_AT_ONCE = 64


class UDP(Transport):
    """Transport over UDP; a process's name is its address, such as "127.0.0.1:9000" or "[::1]:9000".

    The process listens only on the address ``here``.

    Parameters
    ----------
    here : str
        The address of this process.
    peers : mapping
        {address: agents}: the agents of each other process.
    settings
        Parameters of `Transport`. ``key`` is required unless ``here`` is a loopback address.

    Raises
    ------
    BadInput
        If an address or another argument is invalid, or a key is required and missing.
    """

    most = _MAX_DATAGRAM

    def __init__(self, here: str, peers: Mapping[str, Iterable[Hashable]], **settings: Any) -> None:
        super().__init__(here, peers, **settings)
        self._peer_addresses = {name: address_of("peers", name) for name in self.peers}
        self._address = address_of("here", here)
        self._resolved_peers: dict[str, Any] = {}
        if self.key is None and not is_loopback(here):
            raise BadInput(
                f"here = {here!r}: must be a loopback address unless a key is given: anybody could send there"
            )
        self._socket: socket.socket | None = None

    @classmethod
    def local_addresses(cls, count: int) -> list[str]:
        """Return ``count`` loopback addresses with free ports, sorted by port."""
        with ExitStack() as stack:
            held = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)]
            for each in held:
                each.bind(("127.0.0.1", 0))
            return [f"127.0.0.1:{port}" for port in sorted(each.getsockname()[1] for each in held)]

    @classmethod
    def is_local(cls, addresses: Sequence[str], broker: str) -> bool:
        """Return whether all addresses are loopback."""
        return all(map(is_loopback, addresses))

    async def open(self) -> None:
        """Bind the socket and begin to listen; raises NetsimError if the address is not available."""
        loop = asyncio.get_running_loop()
        trying = f"here = {self.here!r}"
        try:
            family, own = _resolved(self._address)
            if not self._resolved_peers:
                # Resolve all addresses before the first datagram, because a name server may be slow.
                for trying, address in self._peer_addresses.items():
                    self._resolved_peers[trying] = _resolved(address, family)[1]
                trying = f"here = {self.here!r}"
            bound = _bound(family, own)
        except OSError as error:
            why = error.strerror or one_line(error)
            raise NetsimError(f"{trying}: must be an available address ({why})") from None
        self._socket = bound
        loop.add_reader(bound, self._receive_ready)

    def send(self, to: str, data: bytes) -> None:
        """Send a datagram."""
        if self._socket is not None:
            # Best effort: a datagram that the system refuses is lost.
            with suppress(OSError):
                self._socket.sendto(data, self._resolved_peers[to])

    async def close(self) -> None:
        """Stop listening."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _receive_ready(self) -> None:
        assert self._socket is not None
        receive, deliver = self._socket.recv, self.deliver
        for _ in range(_AT_ONCE):
            try:
                data = receive(_MAX_DATAGRAM)
            except OSError:
                # EAGAIN: the queue is empty. ECONNREFUSED (Linux): an earlier datagram met a closed port.
                return
            deliver(data)


def address_of(argument: str, text: str) -> tuple[str, int]:
    """Return host and port of "host:port"; raises BadInput for any other text."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise check.refuse(argument, text, "an address like 127.0.0.1:9000 or [::1]:9000")
    return host, int(port)


def is_loopback(address: str) -> bool:
    """Return whether "host:port" is a loopback address; raises BadInput for any other text."""
    host = address_of("address", address)[0]
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _resolved(address: tuple[str, int], family: int = 0) -> tuple[int, Any]:
    """Resolve a host name; return the socket family, and the address as that family's sockets need it."""
    found, _, _, _, resolved = socket.getaddrinfo(*address, family, socket.SOCK_DGRAM)[0]
    return found, resolved


def _bound(family: int, address: Any) -> socket.socket:
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        for direction in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, direction, _BUFFER)
        if sys.platform == "linux":
            # SO_RCVBUFFORCE may exceed the system's limit, but fails without the privilege CAP_NET_ADMIN.
            with suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, _FORCE, _BUFFER)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made
