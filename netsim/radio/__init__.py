"""Radios as they are: one medium for all, who may speak when, what is heard, and what it costs.

``Network(graph, link, medium=netsim.Radio(...))``; docs/radio.md shows it.
"""

from netsim.radio.energy import Energy
from netsim.radio.lora import LoRaAirtime
from netsim.radio.pathloss import LogDistance, within
from netsim.radio.settings import Airtime, Radio
from netsim.radio.sleep import DutyCycle

__all__ = ["Airtime", "DutyCycle", "Energy", "LoRaAirtime", "LogDistance", "Radio", "within"]
