"""Connections between all pairs of workers, and the exchange of messages over them.

The sockets are non-blocking, and each worker sends and receives at the same time: otherwise two workers that send
large messages to each other would deadlock.
"""

import select
import socket
import struct
from collections.abc import Mapping

from netsim.errors import NetsimError

__all__ = ["Lost", "Mesh", "local_meshes"]

_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 20


class Lost(NetsimError):  # noqa: N818  named after the event
    """The connection to another worker has ended."""


class Mesh:
    """A worker's connections to all other workers; ``sockets`` maps the number of each other worker to a socket.

    Attributes
    ----------
    rank, count : int
        This worker's number, counted from 0, and the number of workers.
    """

    def __init__(self, rank: int, sockets: Mapping[int, socket.socket]) -> None:
        self.rank, self.count = rank, len(sockets) + 1
        self._sockets = dict(sockets)
        for each in self._sockets.values():
            each.setblocking(False)

    def exchange(self, messages: Mapping[int, list[bytes]]) -> dict[int, memoryview]:
        """Send a message to each other worker, given as a list of pieces, and return the message from each.

        Raises Lost if the connection to a worker has ended.
        """
        left = {}
        for worker, pieces in messages.items():
            data = memoryview(b"".join([_LENGTH.pack(sum(map(len, pieces))), *pieces]))
            if rest := self._send(worker, data):
                left[worker] = rest
        received = {worker: bytearray() for worker in self._sockets}
        complete: dict[int, memoryview] = {}
        by_number = {each.fileno(): worker for worker, each in self._sockets.items()}
        poll = select.poll()
        for number, worker in by_number.items():
            poll.register(number, select.POLLIN | (select.POLLOUT if worker in left else 0))
        while left or len(complete) < len(received):
            for number, events in poll.poll():
                worker = by_number[number]
                if events & (select.POLLIN | select.POLLHUP | select.POLLERR) and worker not in complete:
                    self._receive(worker, received[worker], complete)
                if events & select.POLLOUT and worker in left:
                    left[worker] = self._send(worker, left[worker])
                    if not left[worker]:
                        del left[worker]
                waits = (select.POLLIN if worker not in complete else 0) | (select.POLLOUT if worker in left else 0)
                if waits:
                    poll.modify(number, waits)
                else:
                    poll.unregister(number)
        return complete

    def _send(self, worker: int, data: memoryview) -> memoryview:
        """Send as much as the socket accepts without blocking; return the rest."""
        try:
            while data:
                data = data[self._sockets[worker].send(data) :]
        except BlockingIOError:
            pass
        except OSError:
            raise Lost(f"worker {worker} has gone") from None
        return data

    def _receive(self, worker: int, received: bytearray, complete: dict[int, memoryview]) -> None:
        """Receive the available bytes of one message, and leave the bytes of the next message in the socket."""
        while True:
            head = len(received) < _LENGTH.size
            size = _LENGTH.size + (0 if head else _LENGTH.unpack_from(received)[0])
            if not head and len(received) == size:
                complete[worker] = memoryview(received)[_LENGTH.size :]
                return
            try:
                data = self._sockets[worker].recv(min(size - len(received), _CHUNK))
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                raise Lost(f"worker {worker} has gone")
            received += data

    def close(self) -> None:
        """Close the connections."""
        for each in self._sockets.values():
            each.close()


def local_meshes(workers: int) -> list[dict[int, socket.socket]]:
    """Connect all workers on this machine; element i of the result maps each other worker to worker i's socket."""
    ends: list[dict[int, socket.socket]] = [{} for _ in range(workers)]
    for one in range(workers):
        for other in range(one):
            ends[one][other], ends[other][one] = socket.socketpair()
    return ends
