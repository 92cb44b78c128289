"""An asyncio message-passing network emulator for decentralized learning, in deterministic virtual time.

``import netsim`` provides every name in ``__all__``; a subpackage is imported on first use:
``netsim.studies.find_study("coke").execute(loss=0.1)``.
"""

import lazy_loader

from netsim._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
