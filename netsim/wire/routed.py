"""A message on a way of several links: the frame that its sender made, inside the frame that crosses one link."""

from dataclasses import dataclass
from typing import Self

import msgpack

from netsim.errors import WireError

__all__ = ["EVERYONE", "Routed"]

EVERYONE = -1
"""In place of a destination's number: all nodes, over the tree of routes."""


@dataclass(frozen=True, slots=True)
class Routed:
    """The payload of a frame that carries another frame one link further.

    Attributes
    ----------
    destination : int
        The number of the agent for which the message is, or `EVERYONE`.
    hops : int
        The number of further links that it may cross after this one.
    raw_data : bool
        Whether its payload contains raw data samples.
    data : bytes
        The frame that the message's sender made: kind, sender, round, payload, and the number of a request.
    """

    destination: int
    hops: int
    raw_data: bool
    data: bytes

    def pack(self) -> bytes:
        """Return the bytes that cross the link."""
        return bytes(msgpack.packb([self.destination, self.hops, self.raw_data])) + self.data

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Return the message from the bytes of `pack`; raises WireError, or msgpack's own errors, if they are none."""
        unpacker = msgpack.Unpacker(max_buffer_size=max(len(data), 1))
        unpacker.feed(data)
        fields = unpacker.unpack()
        if type(fields) is list and [type(field) for field in fields] == [int, int, bool]:
            destination, hops, raw_data = fields
            if destination >= EVERYONE and hops >= 0:
                return cls(destination, hops, raw_data, data[unpacker.tell() :])
        raise WireError(f"{len(data)} bytes carry no message on")
