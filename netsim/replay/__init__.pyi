from .comparison import compare

__all__ = ["compare"]
