from .clock import new_loop

__all__ = ["new_loop"]
