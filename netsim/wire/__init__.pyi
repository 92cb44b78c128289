from . import payloads

__all__ = ["payloads"]
