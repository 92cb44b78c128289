"""The stages of a frame's path over one link, `Transmitter` and `Path`, and `LinkStages`, which runs them for an agent.

A Python module beside this one defines each class; a compiled twin in `_links.pyx` replaces it if it was built
(`netsim.util.compiled`).
"""

from netsim.transport.link_stages import LinkStages
from netsim.transport.path import Path
from netsim.transport.transmitter import Transmitter
from netsim.util.compiled import compiled

__all__ = ["LinkStages", "Path", "Transmitter"]

_links = compiled("transport._links")
if _links is not None:
    globals().update({name: getattr(_links, name) for name in __all__})
