"""The data sets used by studies: their sources, their preparation, and their files on this machine."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
