from . import presets
from .energy import DutyCycle, Energy
from .fading import BlockFading, PatternNoise, beta_factor
from .pathloss import LogDistance, within
from .phy import Phy, fsk, lora, oqpsk
from .rssi import RadioGraph, from_rssi
from .series import LinkSeries
from .settings import Airtime, LoRaAirtime, Radio
from .walls import Walls

__all__ = [
    "Airtime",
    "BlockFading",
    "DutyCycle",
    "Energy",
    "LinkSeries",
    "LoRaAirtime",
    "LogDistance",
    "PatternNoise",
    "Phy",
    "Radio",
    "RadioGraph",
    "Walls",
    "beta_factor",
    "from_rssi",
    "fsk",
    "lora",
    "oqpsk",
    "presets",
    "within",
]
