from .registry import SETS, SHIPPED, UNTRIED, Dataset
from .store import Missing, find, get

__all__ = ["SETS", "SHIPPED", "UNTRIED", "Dataset", "Missing", "find", "get"]
