from .merge import merge_parts
from .mqtt import MQTT
from .transport import Transport
from .udp import UDP

__all__ = ["MQTT", "UDP", "Transport", "merge_parts"]
