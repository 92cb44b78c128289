"""What a link is: latency, loss, rate, budget, reliability; and links measured by others."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
