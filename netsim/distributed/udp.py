"""Datagrams over UDP: asyncio says when the socket can be read, and then all that has come is taken in at once."""

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from netsim.distributed.transport import Transport
from netsim.errors import BadInput, NetsimError, one_line
from netsim.util import check

__all__ = ["UDP", "address_of", "is_loopback"]

_MOST = 65_507
# Bytes that the system is asked to hold for a process that computes, and for a burst that leaves: it may give less.
_BUFFER = 1 << 22
_FORCE = 33  # SO_RCVBUFFORCE, which Python does not name
# Datagrams that are taken in before other things have their turn; asyncio's endpoints take one.
_AT_ONCE = 64


class UDP(Transport):
    """A transport over UDP: processes are named by their addresses, as "127.0.0.1:9000" or "[::1]:9000".

    It listens on the address ``here``, and on no other.

    Parameters
    ----------
    here : str
        The address of this process.
    peers : mapping
        {address: agents}.
    settings
        As `Transport` has them. Beyond loopback there must be a ``key``.

    Raises
    ------
    BadInput
        If an address is none, an address beyond loopback comes without a key, or another argument cannot be used.
    """

    most = _MOST

    def __init__(self, here: str, peers: Mapping[str, Iterable[Hashable]], **settings: Any) -> None:
        super().__init__(here, peers, **settings)
        self._places = {name: address_of("peers", name) for name in self.peers}
        self._own = address_of("here", here)
        self._to: dict[str, Any] = {}
        if self.key is None and not is_loopback(here):
            raise BadInput(f"here = {here!r}: must be a loopback address, or come with a key: anybody could send there")
        self._socket: socket.socket | None = None

    @classmethod
    def local_addresses(cls, count: int) -> list[str]:
        """Return loopback addresses whose ports are free now, in the order of the ports."""
        held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
        try:
            for each in held:
                each.bind(("127.0.0.1", 0))
            return [f"127.0.0.1:{port}" for port in sorted(each.getsockname()[1] for each in held)]
        finally:
            for each in held:
                each.close()

    @classmethod
    def is_local(cls, addresses: Sequence[str], broker: str) -> bool:
        """Return whether all addresses are loopback."""
        return all(map(is_loopback, addresses))

    async def open(self) -> None:
        """Listen; raises NetsimError if the address cannot be had."""
        loop = asyncio.get_running_loop()
        trying = f"here = {self.here!r}"
        try:
            family, own = _resolved(self._own)
            if not self._to:
                # Before anything is sent, and once: a name may take long to be found.
                for trying, place in self._places.items():
                    self._to[trying] = _resolved(place, family)[1]
                trying = f"here = {self.here!r}"
            bound = _bound(family, own)
        except OSError as error:
            why = error.strerror or one_line(error)
            raise NetsimError(f"{trying}: must be an address that can be had ({why})") from None
        self._socket = bound
        loop.add_reader(bound, self._take_in)

    def send(self, to: str, data: bytes) -> None:
        """Send a datagram."""
        if self._socket is not None:
            # What the system does not take is lost.
            with suppress(OSError):
                self._socket.sendto(data, self._to[to])

    async def close(self) -> None:
        """Listen no more."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _take_in(self) -> None:
        assert self._socket is not None
        receive, deliver = self._socket.recv, self.deliver
        for _ in range(_AT_ONCE):
            try:
                data = receive(_MOST)
            except OSError:
                # There is nothing more; or, on some systems, no process listened to what was sent.
                return
            deliver(data)


def address_of(argument: str, text: str) -> tuple[str, int]:
    """Return host and port of "host:port"; raises BadInput if it is none."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise check.refuse(argument, text, "an address as 127.0.0.1:9000 or [::1]:9000")
    return host, int(port)


def is_loopback(address: str) -> bool:
    """Return whether "host:port" is on this machine; raises BadInput if it is no address."""
    host = address_of("address", address)[0]
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _resolved(place: tuple[str, int], family: int = 0) -> tuple[int, Any]:
    """Return the family of an address, and the address as a socket of that family wants it."""
    found, _, _, _, address = socket.getaddrinfo(*place, family, socket.SOCK_DGRAM)[0]
    return found, address


def _bound(family: int, place: Any) -> socket.socket:
    """Return a socket that listens at a place."""
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        for direction in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, direction, _BUFFER)
        if sys.platform == "linux":
            # Beyond the usual limit, for those who may.
            with suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, _FORCE, _BUFFER)
        made.bind(place)
    except BaseException:
        made.close()
        raise
    return made
