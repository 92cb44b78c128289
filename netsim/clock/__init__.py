"""Simulated time: the event loop, its clock and tasks, rounds, and agents' own clocks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
