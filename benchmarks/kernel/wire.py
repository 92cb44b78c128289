"""Frames sent over the pair at planned times, with the kernel's timestamps of departure and arrival.

The kernel stamps a frame twice: when it enters the sender's queue, and when it enters the receiver's end. The second
time is that of leaving the queue, because the pair itself takes only a few microseconds.
"""

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.kernel.namespaces import Ends
from netsim.util.typing import Vector

# From asm-generic/socket.h: the variants with 64-bit seconds, on every machine.
_STAMP_RECEIVED, _STAMPING = 64, 65
# From linux/net_tstamp.h: stamp the time of queueing, with the system's clock, numbered, and without the frame.
_SCHEDULED, _SOFTWARE, _NUMBERED, _ALONE = 1 << 8, 1 << 4, 1 << 7, 1 << 11
_SECONDS = struct.Struct("=qq")
_NUMBER = struct.Struct("!I")
# sock_extended_err of linux/errqueue.h: error, origin, type, code, padding, kind of stamp, number.
_EXTENDED = struct.Struct("=IBBBBII")
_IS_STAMP = 4
# A socket can hold at least this many unread stamps.
_OFTEN = 16
_QUIET = 0.25

Stamp = tuple[int, int]
"""A frame's number and the kernel's time in nanoseconds."""

Control = list[tuple[int, int, bytes]]
"""The ancillary messages of a datagram: level, kind and content of each."""


class Disagreement(Exception):  # noqa: N818  names that say what happened
    """The kernel's counts differ from this program's, so no measurement is valid."""


@dataclass(frozen=True)
class Crossing:
    """The outcome of the frames of one run, in the kernel or in netsim.

    ``offered`` has the time of each frame's offer, in seconds from the plan's start, and ``departed`` the time at which
    it left the link's queue (NaN: never), shapes (frames,). ``order`` has the frames' numbers in order of arrival.
    """

    offered: Vector
    departed: Vector
    order: tuple[int, ...]


def exchange(ends: Ends, times: Vector, sizes: Vector) -> Crossing:
    """Send frames at the planned times and return the kernel's outcome.

    ``times`` are ascending seconds from the start, and ``sizes`` the bytes of each datagram, at least 4; shapes
    (frames,). The actual sending times are slightly later, and are measured. Raises Disagreement if the kernel's stamps
    do not match the frames.
    """
    with contextlib.ExitStack() as stack:
        sender, receiver = (stack.enter_context(each) for each in ends.sockets())
        receiver.setsockopt(socket.SOL_SOCKET, _STAMP_RECEIVED, 1)
        sender.setsockopt(socket.SOL_SOCKET, _STAMPING, _SCHEDULED | _SOFTWARE | _NUMBERED | _ALONE)
        offered: dict[int, int] = {}
        arrived: dict[int, int] = {}

        def drain() -> None:
            _read(sender, socket.MSG_ERRQUEUE, sent, offered)
            _read(receiver, 0, received, arrived)

        begun = time.monotonic()
        for number, (planned, size) in enumerate(zip(times.tolist(), sizes.tolist(), strict=True)):
            while (left := begun + planned - time.monotonic()) > 0:
                drain()
                select.select([receiver], [], [], left)
            sender.send(_NUMBER.pack(number) + bytes(int(size) - _NUMBER.size))
            if number % _OFTEN == 0:
                drain()
        while select.select([receiver], [], [], _QUIET)[0]:
            drain()
        drain()
    if len(offered) != len(times):
        raise Disagreement(f"{len(times)} frames were sent, and the kernel has stamps of {len(offered)}")
    return _crossing(times, offered, arrived)


def _read(of: socket.socket, flags: int, stamp: Callable[[bytes, Control], Stamp], to: dict[int, int]) -> None:
    """Read the number and the kernel's time, in nanoseconds, of each available frame."""
    with contextlib.suppress(BlockingIOError):
        while True:
            data, control, _, _ = of.recvmsg(_NUMBER.size, 512, flags | socket.MSG_DONTWAIT)
            number, to[number] = stamp(data, control)


def received(data: bytes, control: Control) -> Stamp:
    """Read a datagram's ancillary data: its number, and its time of arrival."""
    return int(_NUMBER.unpack(data)[0]), _nanoseconds(control, _STAMP_RECEIVED)


def sent(data: bytes, control: Control) -> Stamp:
    """Read the kernel's report to a sender: number and time; raises Disagreement if it reports an error."""
    (report,) = [content for level, _, content in control if level == socket.IPPROTO_IP]
    _, origin, *_, number = _EXTENDED.unpack_from(report)
    if origin != _IS_STAMP:
        raise Disagreement(f"the kernel reports an error of origin {origin} where a time was expected")
    return int(number), _nanoseconds(control, _STAMPING)


def _nanoseconds(control: Control, wanted: int) -> int:
    content = next(each for level, kind, each in control if (level, kind) == (socket.SOL_SOCKET, wanted))
    seconds, rest = _SECONDS.unpack_from(content)
    return int(seconds) * 10**9 + int(rest)


def _crossing(times: Vector, offered: dict[int, int], arrived: dict[int, int]) -> Crossing:
    """Convert the stamps to the plan's clock, on which the most punctual frame was sent at its planned time."""
    first = min(offered.values())
    # Subtract before converting to float, because nanoseconds since 1970 have more digits than a float.
    handed = np.array([offered[number] - first for number in range(len(times))]) / 1e9
    zero = float(np.min(handed - times))
    departed = np.full(len(times), np.nan)
    for number, stamp in arrived.items():
        departed[number] = (stamp - first) / 1e9 - zero
    return Crossing(handed - zero, departed, tuple(arrived))
