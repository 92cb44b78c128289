"""Classics of distributed computing, as the lessons build them: each a short agent that names its paper."""

__all__: list[str] = []
