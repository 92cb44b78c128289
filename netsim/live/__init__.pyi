from .server import live_view

__all__ = ["live_view"]
