"""The same frames through a network of netsim's: one agent says them at the times measured, another listens."""

import numpy as np

from benchmarks.kernel.mapping import Setting
from benchmarks.kernel.wire import Crossing
from netsim import Run
from netsim.testing import Listener, Talker, play, sized
from netsim.util.typing import Vector

__all__ = ["simulate"]

_NUMBER_BYTES = 4


def simulate(setting: Setting, offered: Vector, sizes: Vector, seed: int) -> tuple[Crossing, Run]:
    """Return what netsim does to frames that are offered at these times, and the run.

    Parameters
    ----------
    setting : Setting
        The link, and when the kernel reckons that a frame has left it.
    offered : Vector
        Seconds at which each frame is handed to the link, ascending, none negative; shape (frames,).
    sizes : Vector
        Bytes of each frame, at least 12; shape (frames,).
    seed : int
        For what the link draws.

    Raises
    ------
    BadInput
        If no frame can have a size.
    """
    frames = [_numbered(number, int(size)) for number, size in enumerate(sizes)]
    listener = Listener()
    run = play(Talker(zip(offered.tolist(), frames, strict=True)), listener, link=setting.link, seed=seed)
    departed = np.full(len(sizes), np.nan)
    order = []
    for time, _, payload in listener.heard:
        number = int.from_bytes(payload[:_NUMBER_BYTES], "big")
        order.append(number)
        departed[number] = time
    return Crossing(offered, departed - setting.service(sizes), tuple(order)), run


def _numbered(number: int, size: int) -> bytes:
    """Return the payload whose frame is ``size`` bytes long and begins with the frame's number."""
    return number.to_bytes(_NUMBER_BYTES, "big") + sized(size)[_NUMBER_BYTES:]
