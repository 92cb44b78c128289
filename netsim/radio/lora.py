"""LoRa's time on the air: chirps of 2^SF samples, whose number depends on more than the bits."""

import math
from dataclasses import dataclass

from netsim.util import check

__all__ = ["LoRaAirtime"]


@dataclass(frozen=True, kw_only=True)
class LoRaAirtime:
    """LoRa's time on the air, for `netsim.Radio`. Source: Semtech AN1200.13, "LoRa Modem Designer's Guide", 2013.

    Parameters
    ----------
    spreading_factor : int
        SF, 7 to 12: bits in a chirp.
    bandwidth : float
        In Hz.
    coding_rate : int
        CR, 1 to 4: 4/(4 + CR) of the bits are the payload's.
    preamble : int
        Symbols of the preamble.
    header : bool
        Whether there is an explicit header.
    crc : bool
        Whether the payload has a CRC.
    """

    spreading_factor: int = 7
    bandwidth: float = 125e3
    coding_rate: int = 1
    preamble: int = 8
    header: bool = True
    crc: bool = True

    def __post_init__(self) -> None:
        check.put(self, spreading_factor=check.integer("spreading_factor", self.spreading_factor, low=7, high=12))
        check.put(self, bandwidth=check.finite("bandwidth", self.bandwidth, above=0))
        check.put(self, coding_rate=check.integer("coding_rate", self.coding_rate, low=1, high=4))
        check.put(self, preamble=check.integer("preamble", self.preamble, low=0))
        check.put(self, header=check.flag("header", self.header), crc=check.flag("crc", self.crc))

    @property
    def symbol(self) -> float:
        """T_sym = 2^SF/BW in seconds."""
        return float(2**self.spreading_factor / self.bandwidth)

    @property
    def rate(self) -> float:
        """The rate of the payload's symbols, SF·4/(4 + CR)/T_sym, in bits per second."""
        return self.spreading_factor * 4 / (4 + self.coding_rate) / self.symbol

    def seconds(self, bits: int) -> float:
        """Return (n_preamble + 4.25 + 8 + max(⌈(8PL − 4SF + 28 + 16CRC − 20IH)/(4(SF − 2DE))⌉(CR + 4), 0))·T_sym.

        The low data rate optimization DE is on where a symbol takes 16 ms or more, as it must be.
        """
        sf, optimized = self.spreading_factor, int(self.symbol >= 16e-3)
        size = math.ceil(bits / 8)
        above = 8 * size - 4 * sf + 28 + 16 * self.crc - 20 * (not self.header)
        payload = 8 + max(math.ceil(above / (4 * (sf - 2 * optimized))) * (self.coding_rate + 4), 0)
        return (self.preamble + 4.25 + payload) * self.symbol
