from .notebook import lab

__all__ = ["lab"]
