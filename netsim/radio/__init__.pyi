from . import presets
from .energy import Energy
from .lora import LoRaAirtime
from .pathloss import LogDistance, within
from .settings import Airtime, Radio
from .sleep import DutyCycle

__all__ = ["Airtime", "DutyCycle", "Energy", "LoRaAirtime", "LogDistance", "Radio", "presets", "within"]
