"""Captured traffic: an agent that sends messages with the times and sizes of the packets in a capture."""

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
"""The kind of the messages that `Replayed` sends."""


class Replayed(netsim.Part):
    """Sends a message for each packet of a capture: at the packet's time, with a payload of zeros of the packet's size.

    Time 0 of the capture is ``start`` seconds after the agent begins. Encoding a message adds some bytes
    (docs/counting.md). The agent can be a part of a `netsim.Mote`.

    Parameters
    ----------
    packets : path or iterable
        A file in pcap or pcapng format, or pairs (time in seconds, size in bytes) sorted by time.
    to : Hashable, optional
        The neighbour to which all messages are sent. By default they are broadcast to all neighbours.
    start : float
        Seconds from the agent's begin to time 0 of the capture.
    speed : float
        Factor by which the replay is faster than the capture: at 2 the gaps are half as long.

    Attributes
    ----------
    sent : int
        Number of messages sent so far.

    Raises
    ------
    BadInput
        If the file is not a capture, a time is lower than the one before it, or a size is not an integer ≥ 0.
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
        """Send a message at the time of each packet."""
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
