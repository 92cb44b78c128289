"""The physical layer, by the signal to interference and noise ratio (SINR): noise, bit errors, lock, energy detection.

Received powers add up, in mW. A receiver locks on the first frame whose SINR exceeds a threshold. The frame consists of
stretches with constant interference, each with its own bit error rate (BER). The frame is received if no bit is wrong:
with probability Π (1 − BER)^bits over the stretches. `netsim.radio.sinr` computes this at each receiver.
"""

import math
import numbers
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from netsim.util import check, draws

__all__ = ["DEFAULT_LOSS", "WEAKEST", "Fading", "Noise", "Phy", "fsk", "key_on", "lora", "oqpsk"]

Cca = Literal["any", "ns3"]
Chunks = Literal["any", "ns3"]

DEFAULT_LOSS = 60.0
"""The path loss in dB between neighbours if no powers are given."""

WEAKEST = 20.0
"""Signals more than this many dB below the noise floor are ignored: each changes an SINR by less than 0.05 dB."""

USUAL_DBM, USUAL_RECEIVED_DBM = 60.0, 30.0
"""The highest plausible transmit power and received power in dBm: a kilowatt and a watt."""

# Thermal noise at 290 K, in dBm per Hz.
_THERMAL = -174.0
# Powers (dBm) and ratios (dB) above these bounds, far beyond any radio, are refused as mistakes.
_MOST_DBM, _MOST_DB = 200.0, 200.0
# The largest ratio (dB) of two powers within ±_MOST_DBM.
_MOST_GAIN = 2 * _MOST_DBM
# The range of SINR (dB) in which `Phy.receives_from` searches, and the precision (dB) of the search.
_LOWEST, _HIGHEST, _PRECISION = -100.0, 100.0, 1e-6
# The coefficients (−1)^k C(16, k) of the sum in `oqpsk`, for k = 2 … 16.
_BINOMIALS = [(k, (-1.0) ** k * math.comb(16, k)) for k in range(2, 17)]


def doubt_power(name: str, dbm: float, usual: float = USUAL_DBM) -> None:
    """Warn if a power exceeds ``usual`` (dBm), because its sign or its unit is probably wrong."""
    if dbm > usual:
        check.doubt(
            f"{name} = {dbm:g} dBm: is {10.0 ** (dbm / 10.0 - 3.0):.2g} W; was {-dbm:g} dBm meant, or milliwatts?"
        )


# --- bit errors -------------------------------------------------------------------------------------------------------


def oqpsk(sinr_db: float) -> float:
    """Return the bit error rate of IEEE 802.15.4's O-QPSK at 2.4 GHz, 250 kbit/s in 2 MHz.

    The rate is 8/15 · 1/16 · Σ_{k=2}^{16} (−1)^k C(16, k) exp(20·SINR·(1/k − 1)), for sixteen quasi-orthogonal
    sequences of 32 chips, detected without the carrier's phase. Source: IEEE Std 802.15.4-2006, E.4.1.8.
    """
    sinr = 10.0 ** (sinr_db / 10.0)
    total = 0.0
    for k, binomial in _BINOMIALS:
        total += binomial * math.exp(20.0 * sinr * (1.0 / k - 1.0))
    return min(max(8.0 / 15.0 / 16.0 * total, 0.0), 0.5)


def fsk(sinr_db: float) -> float:
    """Return the bit error rate of binary FSK, detected without the carrier's phase: ½·exp(−SINR/2).

    The SINR refers to a bandwidth equal to the bit rate, so it equals Eb/N0. Source: Proakis, "Digital Communications",
    4th ed. 2001, 5.4-2.
    """
    return 0.5 * math.exp(-(10.0 ** (sinr_db / 10.0)) / 2.0)


@dataclass(frozen=True)
class _LoRa:
    """LoRa's bit error rate at one spreading factor."""

    spreading_factor: int

    def __call__(self, sinr_db: float) -> float:
        sf, sinr = self.spreading_factor, 10.0 ** (sinr_db / 10.0)
        argument = math.sqrt(sinr * 2.0 ** (sf + 1)) - math.sqrt(1.386 * sf + 1.154)
        return 0.25 * math.erfc(argument / math.sqrt(2.0))


def lora(spreading_factor: int) -> Callable[[float], float]:
    """Return the bit error rate of LoRa as a function of the SINR in dB: ½·Q(√(SINR·2^(SF+1)) − √(1.386·SF + 1.154)).

    Valid for uncoded chirps, 7 ≤ SF ≤ 12, in white noise. Source: Elshabrawy, Robert, "Closed-Form Approximation of
    LoRa Modulation BER Performance", IEEE Communications Letters 22(9), 2018.
    """
    return _LoRa(check.integer("spreading_factor", spreading_factor, low=7, high=12))


# --- settings ---------------------------------------------------------------------------------------------------------


class Fading(Protocol):
    """Protocol of a fading model, which gives the deviation of a link's received power from its mean."""

    def gain_db(self, seed: int, link_key: int, time: float) -> float:
        """Return the gain (dB) of a signal that begins at ``time`` (s); equal arguments must give equal gains.

        Both directions of a link have the same key; on different channels the link has different keys.
        """
        ...


def key_on(channel: int, link_key: int) -> int:
    """Return the key of a link on a channel: ``link_key`` on channel 0, an independent key on other channels."""
    return link_key ^ (channel * int(draws.GAMMA) % 2**64)


class Noise(Protocol):
    """Protocol of a noise model, which gives the noise floor as a function of time."""

    def noise_dbm(self, seed: int, node_key: int, time: float) -> float:
        """Return the noise (dBm) at a node at ``time`` (s); equal arguments must give equal noise."""
        ...


class NamedFading(Protocol):
    """Protocol of a fading model that identifies nodes by their names."""

    def gain_at(self, sender: Hashable, receiver: Hashable, time: float) -> float:
        """Return the gain (dB) of a signal that begins at ``time`` (s); equal arguments must give equal gains."""
        ...


class NamedNoise(Protocol):
    """Protocol of a noise model that identifies nodes by their names."""

    def noise_at(self, node: Hashable, time: float) -> float:
        """Return the noise (dBm) at a node at ``time`` (s); equal arguments must give equal noise."""
        ...


@check.named
@dataclass(frozen=True, kw_only=True)
class Phy:
    """Reception by signal to interference and noise: ``Radio(phy=Phy(...), powers=...)``.

    The defaults are those of the CC2420 radio. The default noise figure is such that 1 % of frames with a PSDU of 20
    bytes are lost at the CC2420's sensitivity of −95 dBm, as IEEE 802.15.4 defines sensitivity; so the noise figure
    includes the demodulator's losses.

    Parameters
    ----------
    error_rate : callable
        ``error_rate(sinr_db)`` returns the bit error rate, in [0, 1], and always the same for the same SINR: `oqpsk`,
        `fsk`, ``lora(sf)`` or your own.
    bandwidth : float
        The bandwidth in Hz, 1 or more.
    noise_figure : float
        The noise figure in dB: the noise floor is −174 dBm/Hz + 10·log10(bandwidth) + noise figure.
    lock_db : float
        An idle receiver locks on a frame whose SINR (dB) exceeds this as the frame begins.
    sense_dbm : float
        Energy detection: a clear channel assessment finds the channel busy if the total power reaches this (dBm).
    cca : {"any", "ns3"}
        When the total power counts during an assessment. "any": at all times. "ns3": only when a signal begins and at
        the end of the assessment, as in ns-3's lr-wpan (3.37).
    chunks : {"any", "ns3"}
        When the interference with a frame may change. "any": whenever another signal begins or ends. "ns3": only when
        another signal begins, as in ns-3's lr-wpan. These times divide the frame into parts. In each part, only signals
        that last throughout the part count as interference.
    interference_db : float
        By how many dB interference is more harmful than noise of equal power: above 0 if the interferer's spectrum is
        not noise-like.
    concurrent_s : float
        The powers of frames with equal kind and payload add up, instead of interfering, if the frames begin within this
        time (s). For O-QPSK at 2.4 GHz use 0.5e-6, one chip. 0: all frames interfere. Frames from different senders
        count as equal, although a frame contains its sender's number.
    transmit_dbm : float
        The transmit power to which ``Radio.powers`` refer. Without ``Radio.powers``, all received powers are 60 dB
        below it.
    fading : object, optional
        An object whose method ``gain_db(seed, link_key, time)``, or ``gain_at(sender, receiver, time)`` with the nodes'
        names, returns a signal's gain in dB; it is called once per signal.
    noise : object, optional
        An object whose method ``noise_dbm(seed, node_key, time)``, or ``noise_at(node, time)`` with the node's name,
        returns the noise in dBm, which replaces the constant noise floor. It is called when a frame begins and when a
        channel assessment ends; in an assessment the noise adds to the received powers.

    Raises
    ------
    BadInput
        If a value is outside its range.
    """

    error_rate: Callable[[float], float] = oqpsk
    bandwidth: float = 2e6
    noise_figure: float = 15.5
    lock_db: float = -5.0
    sense_dbm: float = -77.0
    cca: Cca = "any"
    chunks: Chunks = "any"
    interference_db: float = 0.0
    concurrent_s: float = 0.0
    transmit_dbm: float = 0.0
    fading: "Fading | NamedFading | None" = None
    noise: "Noise | NamedNoise | None" = None

    def __post_init__(self) -> None:
        made: object = lora
        if not callable(self.error_rate) or self.error_rate is made:
            raise check.refuse("error_rate", self.error_rate, "a function of the SINR in dB: oqpsk, fsk, lora(7), ...")
        check.fields(self, check.finite, "bandwidth", low=1)
        check.fields(self, check.finite, "concurrent_s", low=0)
        check.fields(self, check.finite, "noise_figure", "lock_db", "interference_db", low=-_MOST_DB, high=_MOST_DB)
        check.fields(self, check.finite, "sense_dbm", "transmit_dbm", low=-_MOST_DBM, high=_MOST_DBM)
        doubt_power("transmit_dbm", self.transmit_dbm)
        check.one_of("cca", self.cca, get_args(Cca))
        check.one_of("chunks", self.chunks, get_args(Chunks))
        methods = {
            "fading": ("gain_db(seed, link_key, time)", "gain_at(sender, receiver, time)"),
            "noise": ("noise_dbm(seed, node_key, time)", "noise_at(node, time)"),
        }
        for name, calls in methods.items():
            value: Any = getattr(self, name)
            check.called(name, value)
            if value is not None and not any(callable(getattr(value, each.split("(")[0], None)) for each in calls):
                raise check.refuse(name, value, f"an object with {' or '.join(calls)}, or None")

    @property
    def noise_dbm(self) -> float:
        """The noise floor in dBm."""
        return _THERMAL + 10.0 * math.log10(self.bandwidth) + self.noise_figure

    @property
    def default_dbm(self) -> float:
        """The received power (dBm) of all nodes if ``Radio.powers`` is not given."""
        return self.transmit_dbm - DEFAULT_LOSS

    def gain(self, seed: int, link_key: int, channel: int, ends: tuple[Hashable, Hashable], time: float) -> float:
        """Return the factor by which ``fading`` multiplies a link's power on a channel at ``time`` (s).

        ``ends`` are the names of the sender and of the receiver.
        """
        model: Any = self.fading
        if hasattr(model, "gain_at"):
            gain, call = model.gain_at(*ends, time), "gain_at"
        else:
            gain, call = model.gain_db(seed, key_on(channel, link_key), time), "gain_db"
        return float(10.0 ** (check.number(f"fading.{call} at {time:g} s", gain, high=_MOST_GAIN) / 10.0))

    def floor(self, seed: int, node_key: int, node: Hashable, time: float) -> float:
        """Return the power (mW) of the model ``noise`` at a node at ``time`` (s); ``node`` is the node's name."""
        model: Any = self.noise
        if hasattr(model, "noise_at"):
            noise, call = model.noise_at(node, time), "noise_at"
        else:
            noise, call = model.noise_dbm(seed, node_key, time), "noise_dbm"
        name = f"noise.{call} at {time:g} s"
        return float(10.0 ** (check.number(name, noise, low=-_MOST_GAIN, high=_MOST_GAIN) / 10.0))

    def log_success(self, sinr: float) -> float:
        """Return ln(1 − BER) for an SINR (a ratio, not in dB): the log of the probability that one bit is right."""
        sinr_db = 10.0 * math.log10(sinr) if sinr > 0.0 else -math.inf
        rate = self.error_rate(max(sinr_db, -_MOST_DB))
        if not (isinstance(rate, numbers.Real) and 0.0 <= rate <= 1.0):
            raise check.refuse(f"error_rate({sinr_db:g})", rate, "a bit error rate in [0, 1]")
        return math.log1p(-rate) if rate < 1.0 else -math.inf

    def receives_from(self, least: float, bits: int) -> float:
        """Return the least power (dBm) at which frames of ``bits`` bits are received with probability ``least``."""
        low, high = _LOWEST, _HIGHEST
        if self.success(high, bits) < least:
            raise check.refuse("least", least, "one that a frame without interference reaches")
        while high - low > _PRECISION:
            middle = (low + high) / 2
            low, high = (low, middle) if self.success(middle, bits) >= least else (middle, high)
        return self.noise_dbm + max(high, self.lock_db)

    def success(self, sinr_db: float, bits: float) -> float:
        """Return the probability that a frame of ``bits`` bits, headers included, is received at a fixed SINR (dB)."""
        return math.exp(bits * self.log_success(10.0 ** (sinr_db / 10.0)))
