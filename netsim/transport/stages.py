"""The stages of a frame's way over one link: `Transmitter`, then `Path`; `LinkStages` has those of an agent's links.

Each class has a twin in Python that defines it, in a module beside this one, and a compiled one (`_links.pyx`), which
is used where it was built (`netsim.util.compiled`).
"""

from netsim.transport.link_stages import LinkStages
from netsim.transport.path import Path
from netsim.transport.transmitter import Transmitter
from netsim.util.compiled import compiled

__all__ = ["LinkStages", "Path", "Transmitter"]

_links = compiled("transport._links")
if _links is not None:
    globals().update({name: getattr(_links, name) for name in __all__})
