"""The classes that carry a frame over a link: `Transmitter`, then `Path`; `LinkStages` runs both for an agent's links.

Each class is defined in a Python module of this package. If `_links.pyx` was built, this module exports the compiled
versions instead (`netsim.util.compiled`).
"""

from netsim.transport.link_stages import LinkStages
from netsim.transport.path import Path
from netsim.transport.transmitter import Transmitter
from netsim.util.compiled import compiled

__all__ = ["LinkStages", "Path", "Transmitter"]

_links = compiled("transport._links")
if _links is not None:
    globals().update({name: getattr(_links, name) for name in __all__})
