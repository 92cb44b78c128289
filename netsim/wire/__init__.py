"""From payload to bytes and back: msgpack, packed integers, and the registries of coded types and payloads."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
