"""Replay a run: its trace as one page for the browser; or several runs side by side."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
