"""The data sets that studies name: where they come from, how they are prepared, where they are here."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
