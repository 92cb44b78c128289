from .explain import Contradiction, find_contradiction
from .invariants import (
    agreement,
    all_of,
    at_most_one,
    eventually,
    linearizable,
    no_lost_update,
    one_leader_a_term,
    serializable,
)
from .models import Model, mutex, queue, register, transactions
from .operations import Operation, invoke, operations
from .order import Undecided

__all__ = [
    "Contradiction",
    "Model",
    "Operation",
    "Undecided",
    "agreement",
    "all_of",
    "at_most_one",
    "eventually",
    "find_contradiction",
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
