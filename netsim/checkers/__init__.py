"""Checkers for agents' behaviour: recorded operations, and invariants for `netsim.testing.search`.

>>> from netsim.checkers import linearizable, register
>>> found = search(make, linearizable(register, initial=0), seeds=range(300))

docs/testing_reference.md lists them all.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
