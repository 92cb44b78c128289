"""Ready checks of what agents did: recorded operations, and invariants for `netsim.testing.search`.

>>> from netsim.checkers import linearizable, register
>>> found = search(make, linearizable(register, initial=0), seeds=range(300))

docs/testing.md shows each.
"""

from netsim.checkers.explain import Contradiction, contradiction
from netsim.checkers.invariants import (
    agreement,
    all_of,
    at_most_one,
    eventually,
    linearizable,
    no_lost_update,
    one_leader_a_term,
    serializable,
)
from netsim.checkers.models import Model, mutex, queue, register, transactions
from netsim.checkers.operations import Operation, invoke, operations
from netsim.checkers.order import Undecided

__all__ = [
    "Contradiction",
    "Model",
    "Operation",
    "Undecided",
    "agreement",
    "all_of",
    "at_most_one",
    "contradiction",
    "eventually",
    "invoke",
    "linearizable",
    "mutex",
    "no_lost_update",
    "one_leader_a_term",
    "operations",
    "queue",
    "register",
    "serializable",
    "transactions",
]
