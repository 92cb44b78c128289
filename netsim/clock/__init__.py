"""Simulated time: the event loop, its clock and tasks, rounds, and the skew of an agent's clock."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
