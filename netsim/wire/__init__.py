"""Encode payloads to bytes and decode them: msgpack, packed integers, and the registries of coded types and classes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
