"""A run that one can poke: its settings as controls, faults by a click, each in a branch of its own."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
