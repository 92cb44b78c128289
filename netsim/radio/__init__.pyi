from . import presets
from .energy import DutyCycle, Energy
from .pathloss import LogDistance, within
from .settings import Airtime, LoRaAirtime, Radio

__all__ = ["Airtime", "DutyCycle", "Energy", "LoRaAirtime", "LogDistance", "Radio", "presets", "within"]
