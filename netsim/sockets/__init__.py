"""The way out of the simulation: the agents of one network in several processes, over real sockets."""

from netsim.sockets.mqtt import MQTT
from netsim.sockets.transport import Transport
from netsim.sockets.udp import UDP

__all__ = ["MQTT", "UDP", "Transport"]
