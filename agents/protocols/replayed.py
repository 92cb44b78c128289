"""Captured traffic: an agent that sends messages at a capture's packet times, with the packets' sizes."""

import asyncio
import itertools
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import ClassVar

import netsim
from netsim.draw import Number
from netsim.errors import BadInput
from netsim.files.captures import Packet, read_packets
from netsim.util import check

__all__ = ["Replayed"]

KIND = "replayed"
"""The kind of the messages."""


class Replayed(netsim.Part):
    """Sends a message for each packet of a capture, at its time, with a payload of its size; content is zeros.

    The first packet is sent ``start`` seconds after the agent begins. Encoding a message adds some bytes
    (docs/counting.md). The agent can be a part of a `netsim.Mote`.

    Parameters
    ----------
    packets : path or iterable
        A file of pcap or pcapng, or pairs (time in seconds, size in bytes) in order of time.
    to : Hashable, optional
        The neighbour that gets all messages; None: all neighbours, by a broadcast.
    start : float
        Seconds until the first packet.
    speed : float
        How many times faster than captured: at 2 the gaps are half as long.

    Attributes
    ----------
    sent : int
        How many messages were sent.

    Raises
    ------
    BadInput
        If the file is no capture, or times fall, or a size is none.
    """

    kinds: ClassVar = (KIND,)
    draw: ClassVar = {"replayed": Number(lambda a: a.sent)}

    def __init__(
        self,
        packets: str | Path | Iterable[tuple[float, int]],
        to: Hashable | None = None,
        *,
        start: float = 0.0,
        speed: float = 1.0,
    ) -> None:
        listed = read_packets(packets) if isinstance(packets, str | Path) else [_packet(*each) for each in packets]
        for before, after in itertools.pairwise(listed):
            if after.time < before.time:
                raise BadInput(f"packets: must be in order of time; {after.time:g} s is after {before.time:g} s")
        self.packets, self.to = listed, to
        self.start = check.finite("start", start, low=0)
        self.speed = check.finite("speed", speed, above=0)
        self.sent = 0

    async def run(self) -> None:
        """Send the packets."""
        begin = self.now + self.start
        for packet in self.packets:
            await asyncio.sleep(max(0.0, begin + packet.time / self.speed - self.now))
            payload = bytes(packet.size)
            if self.to is None:
                await self.broadcast(KIND, payload)
            else:
                await self.send(self.to, KIND, payload)
            self.sent += 1


def _packet(time: float, size: int) -> Packet:
    return Packet(check.finite("packets: time", time, low=0), check.integer("packets: size", size, low=0))
