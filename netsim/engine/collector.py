"""The garbage collector while networks run: it looks less often at their many short-lived objects."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["unhurried_collector"]

_THRESHOLD = 50_000

_lock = threading.Lock()
_users = 0
_before = (0, 0, 0)
_freezes = False


@contextmanager
def unhurried_collector() -> Iterator[None]:
    """Let the collector look seldom at what is made meanwhile, and never at what there is already.

    Runs may overlap, in threads or on one loop: the last to leave puts things back.
    """
    global _users, _before, _freezes
    with _lock:
        if not _users:
            _before = gc.get_threshold()
            gc.set_threshold(max(_before[0], _THRESHOLD), *_before[1:])
            # Who froze something already wants it to stay so.
            _freezes = not gc.get_freeze_count()
        _users += 1
        if _freezes:
            gc.freeze()
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                gc.set_threshold(*_before)
                if _freezes:
                    gc.unfreeze()
