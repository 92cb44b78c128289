"""Received powers of pairs of nodes, stored in arrays because a thousand nodes have a million pairs."""

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.util.typing import Array

__all__ = ["Powers"]

Numbers = NDArray[np.int64]


class Powers(Mapping[tuple[Any, Any], float]):
    """A read-only mapping {(sender, receiver): received power in dBm} that takes 16 bytes per pair.

    Parameters
    ----------
    names : sequence
        The names of the nodes.
    senders, receivers : int array, shape (pairs,)
        The sender and the receiver of each pair, as indices into ``names``. Pairs are sorted by sender, then by
        receiver.
    dbm : array, shape (pairs,)
        Each pair's received power in dBm.
    """

    __slots__ = ("_keys", "_numbers", "dbm", "names")

    def __init__(self, names: Sequence[Any], senders: Numbers, receivers: Numbers, dbm: Array) -> None:
        self.names, self.dbm = names, dbm
        dbm.flags.writeable = False
        self._numbers = {name: number for number, name in enumerate(names)}
        self._keys = senders * len(names) + receivers

    @property
    def ends(self) -> tuple[Numbers, Numbers]:
        """Each pair's sender and receiver, as indices into ``names``."""
        return self._keys // len(self.names), self._keys % len(self.names)

    def __getitem__(self, pair: tuple[Any, Any]) -> float:
        try:
            sender, receiver = map(self._numbers.__getitem__, pair)
        except (KeyError, TypeError, ValueError):
            raise KeyError(pair) from None
        key = sender * len(self.names) + receiver
        place = int(self._keys.searchsorted(key))
        if place == len(self) or self._keys[place] != key:
            raise KeyError(pair)
        return float(self.dbm[place])

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        senders, receivers = (map(self.names.__getitem__, end.tolist()) for end in self.ends)
        return zip(senders, receivers, strict=True)

    def __len__(self) -> int:
        return len(self._keys)

    def items(self) -> ItemsView[tuple[Any, Any], float]:
        """Return the pairs with their powers."""
        return _Items(self)


class _Items(ItemsView[tuple[Any, Any], float]):
    """Items view that iterates in stored order; the inherited ``__iter__`` would look up each pair's power."""

    _mapping: Powers

    def __iter__(self) -> Iterator[tuple[tuple[Any, Any], float]]:
        return zip(self._mapping, self._mapping.dbm.tolist(), strict=True)
