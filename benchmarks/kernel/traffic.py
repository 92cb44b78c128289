"""What is offered: planned times and sizes of frames, in bursts or as a Poisson process."""

from dataclasses import dataclass

import numpy as np

from netsim.util.typing import Vector

__all__ = ["SIZES", "Plan", "bursts", "evenly", "poisson"]

SIZES = (100, 400, 900, 1400)
"""Bytes of the datagrams, all as frequent."""

_BURST = 20
# Seconds before the first frame: the kernel begins to stamp what comes a little after it was asked to.
_BEGIN = 0.05


@dataclass(frozen=True)
class Plan:
    """Frames to be sent.

    Attributes
    ----------
    times : Vector
        Seconds from the beginning, ascending; shape (frames,).
    sizes : Vector
        Bytes of each datagram; shape (frames,).
    """

    times: Vector
    sizes: Vector


def _sizes(frames: int, size: int | None, rng: np.random.Generator) -> Vector:
    return np.full(frames, float(size)) if size else rng.choice(np.array(SIZES, dtype=float), frames)


def bursts(frames: int, rate: float, load: float, size: int | None, rng: np.random.Generator) -> Plan:
    """Plan bursts of 20 frames, each at one instant, that offer ``load`` times ``rate`` bit/s in the mean.

    ``size`` is the bytes of each datagram; None: a mixture. Headers are not reckoned with.
    """
    sizes = _sizes(frames, size, rng)
    every = _BURST * 8 * sizes.mean() / (rate * load)
    return Plan(_BEGIN + every * (np.arange(frames) // _BURST), sizes)


def poisson(frames: int, rate: float, load: float, size: int | None, rng: np.random.Generator) -> Plan:
    """Plan frames at the times of a Poisson process that offers ``load`` times ``rate`` bit/s in the mean."""
    sizes = _sizes(frames, size, rng)
    pauses = rng.exponential(8 * float(sizes.mean()) / (rate * load), frames)
    return Plan(_BEGIN + np.cumsum(pauses), sizes)


def evenly(frames: int, every: float, size: int) -> Plan:
    """Plan frames of ``size`` bytes every so many seconds."""
    return Plan(_BEGIN + every * np.arange(float(frames)), np.full(frames, float(size)))
