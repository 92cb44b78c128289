from .merge import gather
from .mqtt import MQTT
from .transport import Transport
from .udp import UDP

__all__ = ["MQTT", "UDP", "Transport", "gather"]
