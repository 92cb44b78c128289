"""A shared radio medium: access to the channel, reception, and the energy that nodes spend.

``Network(graph, link, medium=netsim.Radio(...))`` uses it; docs/radio.md explains how.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
