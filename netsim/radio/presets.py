"""Links, radios and energies of real networks, each with its source.

Use ``preset = netsim.presets.ieee802154()`` and ``Network(graph, preset.link, medium=preset.medium)``. To change fields
of a preset's link or radio, use `dataclasses.replace`. Powers are from data sheets; real boards differ.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from netsim.links import latency
from netsim.links.link import Budget, Link
from netsim.radio.energy import Energy
from netsim.radio.phy import Phy, fsk
from netsim.radio.phy import lora as lora_errors
from netsim.radio.settings import LoRaAirtime, Radio
from netsim.util import check

__all__ = ["Preset", "bluetooth_low_energy", "ethernet", "ieee802154", "lora", "lora_budget", "satellite", "wifi"]

# {output power in dBm: supply current in mA}, from the CC2420 data sheet (Texas Instruments SWRS041), table 9.
_CC2420 = {0: 17.4, -1: 16.5, -3: 15.2, -5: 13.9, -7: 12.5, -10: 11.2, -15: 9.9, -25: 8.5}
# {output power in dBm: supply current in mA}, from the SX1276 data sheet (Semtech, rev. 7).
_SX1276 = {20: 120.0, 17: 87.0, 13: 29.0, 7: 20.0}
# {spreading factor: least SNR in dB at which a frame is received}, from the SX1276 data sheet, table 13.
_LORA_SNR = {7: -7.5, 8: -10.0, 9: -12.5, 10: -15.0, 11: -17.5, 12: -20.0}
# {spreading factor: maximum application payload in bytes, without MAC options}, from LoRaWAN Regional Parameters
# RP002-1.0.4, EU863-870.
_LORA_MOST = {7: 222, 8: 222, 9: 115, 10: 51, 11: 51, 12: 51}


class Preset(NamedTuple):
    """The link, radio and energy of a kind of network.

    Attributes
    ----------
    link : Link
        Rate, MTU and header of the network's frames.
    radio : Radio or None
        The shared medium with its energy; None for wires.
    energy : Energy or None
        The energy model of the network's radios.
    """

    link: Link
    radio: Radio | None = None
    energy: Energy | None = None

    @property
    def medium(self) -> "Radio | Literal['wires']":
        """The argument ``medium`` of `netsim.Network`."""
        return "wires" if self.radio is None else self.radio


def _on_air(link: Link, radio: Radio, energy: Energy) -> Preset:
    return Preset(link, replace(radio, energy=energy), energy)


def ieee802154(power_dbm: int = 0, *, acks: bool = True, volts: float = 3.0) -> Preset:
    """Return IEEE 802.15.4 at 2.4 GHz with a CC2420: 250 kbit/s, frames of 127 bytes, unslotted CSMA-CA.

    Header and FCS take 11 of the 127 bytes (short addresses in one PAN), so a fragment carries 116 bytes. Preamble and
    length are another 6 bytes before the frame. An acknowledgement is 11 bytes on the air. Sources: IEEE Std
    802.15.4-2020, 6.2.5.1, and the defaults of its MAC attributes macMinBE = 3, macMaxBE = 5,
    macMaxCSMABackoffs = 4, macMaxFrameRetries = 3; CC2420 data sheet (TI SWRS041) for the currents: 18.8 mA to receive
    and to listen, 17.4 to 8.5 mA to send, 0.02 mA in power down, −95 dBm of sensitivity, and carrier sense from −77 dBm
    on. Reception follows `netsim.radio.Phy`, whose defaults are those of this radio. Received powers are not part of
    the preset: set the ``powers`` of its ``radio``. If an agent sets another transmit power, from −25 to 0 dBm, its
    energy follows the data sheet.

    Parameters
    ----------
    power_dbm : int
        Transmit power: 0, -1, -3, -5, -7, -10, -15 or -25.
    acks : bool
        Whether frames for one neighbour are acknowledged.
    volts : float
        Supply voltage.
    """
    transmit = _milliampere("power_dbm", power_dbm, _CC2420)
    volts = check.finite("volts", volts, above=0)
    currents = {"transmit": transmit, "receive": 18.8, "listen": 18.8, "sleep": 0.02}
    link = Link(rate=250e3, mtu=116, header_bits=8 * 17)
    return _on_air(link, Radio(acks=acks, phy=Phy(transmit_dbm=power_dbm)), _watts(currents, volts, _CC2420))


def bluetooth_low_energy(*, volts: float = 3.0) -> Preset:
    """Return Bluetooth Low Energy at 1 Mbit/s as a broadcast medium: advertisements without carrier sense.

    A legacy advertisement carries 31 bytes, plus 16 bytes of preamble, access address, header, address and CRC. Here it
    is a broadcast in pure ALOHA on one channel; the three channels of a real device, and connections with their
    schedule, are not modelled. Sources: Bluetooth Core Specification 5.4, vol. 6, part B, 2.1 and 2.3.1; nRF52832
    product specification 1.4 (Nordic Semiconductor), with DC/DC at 3 V: 5.3 mA to send at 0 dBm, 5.4 mA to receive,
    1.9 µA asleep, and a sensitivity of −96 dBm at a bit error rate of 0.1 %. For this bit error rate `netsim.radio.fsk`
    needs an SNR of 10.9 dB, and the noise figure is such that a signal of −96 dBm has this SNR. A receiver locks from
    8 dB on, where half of all access addresses (32 bits) are right. The radio turns around in T_IFS, 150 µs.
    """
    phy = Phy(error_rate=fsk, bandwidth=1e6, noise_figure=7.1, lock_db=8.0)
    currents = {"transmit": 5.3, "receive": 5.4, "listen": 5.4, "sleep": 1.9e-3}
    link = Link(rate=1e6, mtu=31, header_bits=8 * 16)
    return _on_air(
        link, Radio(access="aloha", turnaround=150e-6, phy=phy), _watts(currents, check.finite("volts", volts, above=0))
    )


def lora(spreading_factor: int = 7, power_dbm: int = 13, *, volts: float = 3.3) -> Preset:
    """Return LoRaWAN in Europe: SF7 to SF12 at 125 kHz, pure ALOHA, at most 1 % of the time on the air.

    The time on the air follows `netsim.radio.LoRaAirtime`, with 13 bytes of LoRaWAN header in each frame. After a
    frame the node is silent for 99 times the frame's duration. Sources: Semtech AN1200.13 (2013); LoRaWAN 1.0.4 and
    RP002-1.0.4 for the sizes; ETSI EN 300 220-2 for the 1 %; SX1276 data sheet (rev. 7) for the currents: 20 to 120 mA
    to send, 10.8 mA to receive, 0.2 µA asleep. A real class A device listens only after it has sent, but the nodes here
    always listen; a duty cycle (``Radio.duty_cycle``) lets them sleep. For a link without a radio, see `lora_budget`.

    Reception has a noise figure of 6 dB (Semtech AN1200.22) and the bit error rate of `netsim.radio.lora` (the code of
    rate 4/5 only detects errors). A receiver locks from the SNR in the data sheet's table 13 on. Frames of the same
    spreading factor interfere differently from noise: 1 % of bits are wrong if a frame is 1 dB stronger than an
    overlapping one (Croce et al., "Impact of LoRa Imperfect Orthogonality", IEEE Communications Letters 22(4), 2018).
    All nodes use one spreading factor.

    Parameters
    ----------
    spreading_factor : int
        7 to 12.
    power_dbm : int
        Transmit power: 7, 13, 17 or 20.
    volts : float
        Supply voltage.
    """
    transmit = _milliampere("power_dbm", power_dbm, _SX1276)
    airtime = LoRaAirtime(spreading_factor=spreading_factor)
    currents = {"transmit": transmit, "receive": 10.8, "listen": 10.8, "sleep": 2e-4}
    link = Link(rate=airtime.rate, mtu=_LORA_MOST[airtime.spreading_factor], header_bits=8 * 13)
    sf = airtime.spreading_factor
    # The SNR (dB) at which 1 % of bits are wrong by `netsim.radio.lora`: ½·Q(2.0537) = 0.01.
    tolerated = 20.0 * math.log10(2.0537 + math.sqrt(1.386 * sf + 1.154)) - 10.0 * math.log10(2.0 ** (sf + 1))
    phy = Phy(
        error_rate=lora_errors(sf),
        bandwidth=airtime.bandwidth,
        noise_figure=6.0,
        lock_db=_LORA_SNR[sf],
        interference_db=1.0 - tolerated,
        transmit_dbm=power_dbm,
    )
    radio = Radio(access="aloha", airtime=airtime, transmit_share=0.01, phy=phy)
    return _on_air(link, radio, _watts(currents, check.finite("volts", volts, above=0), _SX1276))


def lora_budget(spreading_factor: int = 7, share: float = 0.01) -> Budget:
    """Return a budget that limits a `Link` without a radio to the share of time that LoRa allows; excess frames wait.

    The budget's rate is ``share`` times the bits of a full frame divided by its time on the air. After a long silence,
    a full frame is sent immediately.
    """
    airtime = LoRaAirtime(spreading_factor=spreading_factor)
    bits = 8 * (_LORA_MOST[airtime.spreading_factor] + 13)
    rate = check.probability("share", share) * bits / airtime.seconds(bits)
    return Budget(rate, per="second", over="wait", burst=bits)


def wifi(*, acks: bool = True) -> Preset:
    """Return IEEE 802.11g at 54 Mbit/s: frames of 1500 bytes, carrier sense, acknowledgements.

    Access is unslotted CSMA-CA with 802.11's times (slot 9 µs, SIFS 10 µs, DIFS 28 µs, windows of 16 to 1024 slots,
    7 repetitions). A channel assessment lasts a DIFS, so ``lifs`` and ``sifs`` are 0. Unlike here, 802.11's back-off
    pauses while the channel is busy. Each frame has 36 bytes of header, LLC and FCS and 20 µs of preamble. Source: IEEE
    Std 802.11-2020, clauses 10.3 and 18. The preset has no `netsim.radio.Phy`. With one antenna, a radio draws 1.28 W
    to send, 0.94 W to receive, 0.82 W to listen and 0.1 W asleep (Halperin et al., "Demystifying 802.11n power
    consumption", HotPower 2010).
    """
    radio = Radio(
        min_be=4,
        max_be=10,
        max_csma_backoffs=20,
        unit_backoff=9e-6,
        cca=28e-6,
        turnaround=10e-6,
        lifs=0.0,
        sifs=0.0,
        acks=acks,
        ack_bits=round(54e6 * 24e-6),
        max_frame_retries=7,
    )
    link = Link(rate=54e6, mtu=1500, header_bits=8 * 36 + round(54e6 * 20e-6))
    return _on_air(link, radio, Energy(transmit=1.28, receive=0.94, listen=0.82, sleep=0.1))


def ethernet(rate: float = 1e9, *, metres: float = 100.0) -> Preset:
    """Return a switched Ethernet link of ``metres`` of copper cable, with frames of 1500 bytes.

    Each frame takes 38 more bytes for header, FCS, preamble and gap; the delay is 5 ns per metre. Source: IEEE Std
    802.3-2022, clauses 3 and 4.2.
    """
    way = 5e-9 * check.finite("metres", metres, low=0)
    return Preset(Link(rate=check.finite("rate", rate, above=0), mtu=1500, header_bits=8 * 38, latency=way))


def satellite(orbit: Literal["geo", "leo"] = "geo", *, rate: float = 10e6) -> Preset:
    """Return a bent-pipe satellite link, from ground to ground over a GEO satellite or a LEO satellite at 600 km.

    The maximum one-way delays are half the maximum round trips of 3GPP TR 38.821 (V16.2), table 4.2-2, feeder link
    included: 541.46 ms over GEO, 25.77 ms over LEO at 600 km. Over GEO the delay is constant. Over LEO it is uniform
    from the least possible delay, twice the height at the speed of light, to the maximum.
    """
    check.one_of("orbit", orbit, ("geo", "leo"))
    delay = 0.27073 if orbit == "geo" else latency.uniform(2 * 600e3 / 299_792_458, 0.012885)
    return Preset(Link(rate=check.finite("rate", rate, above=0), mtu=1500, header_bits=8 * 38, latency=delay))


def _milliampere(name: str, power: int, table: dict[int, float]) -> float:
    check.member(name, power, table, f"one of {', '.join(map(str, table))}")
    return table[power]


def _watts(milliampere: dict[str, float], volts: float, by_dbm: Mapping[int, float] | None = None) -> Energy:
    watts: dict[str, Any] = {state: current * volts / 1000.0 for state, current in milliampere.items()}
    return Energy(**watts, transmit_at={dbm: current * volts / 1000.0 for dbm, current in (by_dbm or {}).items()})
