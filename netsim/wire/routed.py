"""A message that crosses several links: its sender's frame travels inside another frame over each link."""

from dataclasses import dataclass
from typing import Self

import msgpack

from netsim.errors import WireError

__all__ = ["EVERYONE", "Routed"]

EVERYONE = -1
"""A destination that stands for all nodes, which the message reaches along the tree of routes."""


@dataclass(frozen=True, slots=True)
class Routed:
    """The payload of a frame that carries another frame one link further.

    Attributes
    ----------
    destination : int
        The number of the agent that shall receive the message, or `EVERYONE`.
    hops : int
        The number of further links that the message may cross after this one.
    raw_data : bool
        Whether the message's payload contains raw data samples.
    data : bytes
        The encoded frame from the message's sender: kind, sender, round, payload, and the number of a request.
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
        """Decode the bytes of `pack`; raises WireError or an error of msgpack if the bytes are invalid."""
        unpacker = msgpack.Unpacker(max_buffer_size=max(len(data), 1))
        unpacker.feed(data)
        fields = unpacker.unpack()
        if type(fields) is list and [type(field) for field in fields] == [int, int, bool]:
            destination, hops, raw_data = fields
            if destination >= EVERYONE and hops >= 0:
                return cls(destination, hops, raw_data, data[unpacker.tell() :])
        raise WireError(f"{len(data)} bytes carry no message on")
