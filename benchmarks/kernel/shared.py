"""An uplink that four flows share: through the kernel's HTB with a class per flow, and through netsim's ``uplink``.

All flows begin at once and have 400 to 1600 frames, so that each ending flow leaves capacity to the others. HTB serves
its classes in turns of 1514 bytes: a flow may be a few frames ahead of an even share.
"""

import asyncio

import numpy as np

from benchmarks.kernel.mapping import ON_WIRE
from benchmarks.kernel.namespaces import SENDER, Ends
from benchmarks.kernel.wire import Disagreement, exchange
from netsim import Agent, Link, Network, topology
from netsim.testing import sized
from netsim.util.typing import Vector

RATE = 40_000_000
# {bytes of a flow's datagrams, by which the kernel distinguishes flows: number of datagrams}.
FLOWS = {1000: 400, 1010: 800, 1020: 1200, 1030: 1600}
_BEGIN, _IP_AND_UDP = 0.05, 28


class _Sender(Agent):
    """Sends frames of these sizes at these times (s), each size to another node."""

    def __init__(self, offered: Vector, sizes: Vector) -> None:
        self.frames = list(zip(offered.tolist(), sizes.tolist(), strict=True))

    async def run(self) -> None:
        """Send all frames."""
        to = dict(zip(FLOWS, self.neighbors, strict=True))
        for time, size in self.frames:
            await asyncio.sleep(time - self.now)
            await self.send(to[size], "frame", sized(int(size)))


class _Receiver(Agent):
    """Records the time (s) of its last frame."""

    last = 0.0

    def __init__(self, frames: int) -> None:
        self.frames = frames

    async def run(self) -> None:
        """Read all frames."""
        for _ in range(self.frames):
            await self.inbox.get()
        self.last = self.now


def uplink(ends: Ends, repeats: int) -> dict[str, dict[str, float]]:
    """Return each flow's completion time (s) in the kernel and in netsim, medians of several runs."""
    rows = [_trial(ends) for _ in range(repeats)]
    kernel, here = np.median(rows, axis=0)
    return {
        f"uplink, {count} frames of {size} bytes": {"kernel_s": a, "netsim_s": b, "percent": 100 * (b / a - 1)}
        for (size, count), a, b in zip(FLOWS.items(), kernel.tolist(), here.tolist(), strict=True)
    }


def _trial(ends: Ends) -> Vector:
    """Return when the last bit of each flow left, in the kernel and in netsim; shape (2, flows)."""
    turns = sorted((place, size) for size, count in FLOWS.items() for place in range(count))
    sizes = np.array([size for _, size in turns], dtype=float)
    for command in _commands():
        ends.run(SENDER, command)
    crossing = exchange(ends, np.full(len(sizes), _BEGIN), sizes)
    ends.run(SENDER, f"tc qdisc del dev {SENDER} root")
    if np.isnan(crossing.departed).any():
        raise Disagreement("the kernel dropped frames of queues that have room for all")
    # netsim forwards a frame when its last bit has left, the kernel when its first bit leaves.
    left = crossing.departed + 8 * (sizes + ON_WIRE) / RATE
    offered = np.maximum.accumulate(crossing.offered)
    star = topology.star(1 + len(FLOWS))
    receivers = {i: _Receiver(n) for i, n in enumerate(FLOWS.values(), 1)}
    Network(star, Link(header_bits=8 * ON_WIRE), uplink={0: RATE}).run({0: _Sender(offered, sizes), **receivers})
    kernel = [left[sizes == size].max() for size in FLOWS]
    found: Vector = np.array([kernel, [each.last for each in receivers.values()]]) - offered[0]
    return found


def _commands() -> list[str]:
    """Return the commands that set up a class for each flow below one for the uplink."""
    class_of = f"tc class add dev {SENDER} parent"
    commands = [
        f"tc qdisc add dev {SENDER} root handle 1: htb default 1",
        f"{class_of} 1: classid 1:1 htb rate {RATE}bit burst 3000b cburst 3000b quantum 1514",
    ]
    for number, size in enumerate(FLOWS, 2):
        share = f"rate {RATE // len(FLOWS)}bit ceil {RATE}bit burst 1514b cburst 1514b quantum 1514"
        match = f"protocol ip u32 match u16 {size + _IP_AND_UDP} 0xffff at 2"
        commands += [
            f"{class_of} 1:1 classid 1:{number} htb {share}",
            f"tc qdisc add dev {SENDER} parent 1:{number} handle {number}0: pfifo limit 5000",
            f"tc filter add dev {SENDER} parent 1: {match} flowid 1:{number}",
        ]
    return commands
