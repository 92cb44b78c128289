"""The accounting of a run: every frame offered to a link, its outcome, every bit, and the order of events."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
