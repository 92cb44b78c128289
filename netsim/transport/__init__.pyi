from .heard import Heard

__all__ = ["Heard"]
