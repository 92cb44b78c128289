from .ledger import Ledger
from .trace import Trace

__all__ = ["Ledger", "Trace"]
