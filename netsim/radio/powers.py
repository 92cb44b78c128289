"""Received powers of many pairs of nodes: as arrays, since a thousand nodes have a million pairs."""

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.util.typing import Array

__all__ = ["Powers"]

Numbers = NDArray[np.int64]


class Powers(Mapping[tuple[Any, Any], float]):
    """Received powers {(sender, receiver): dBm} in 16 bytes a pair, as n nodes have n² pairs; the mapping is read-only.

    Parameters
    ----------
    names : sequence
        The nodes.
    senders, receivers : int array, shape (pairs,)
        Each pair's nodes, as their numbers among ``names``; pairs are in order of senders, then of receivers.
    dbm : array, shape (pairs,)
        Each pair's power.
    """

    __slots__ = ("_keys", "_numbers", "dbm", "names")

    def __init__(self, names: Sequence[Any], senders: Numbers, receivers: Numbers, dbm: Array) -> None:
        self.names, self.dbm = names, dbm
        dbm.flags.writeable = False
        self._numbers = {name: number for number, name in enumerate(names)}
        self._keys = senders * len(names) + receivers

    @property
    def ends(self) -> tuple[Numbers, Numbers]:
        """Each pair's sender and receiver, by their numbers among ``names``."""
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
    """The pairs with their powers in stored order; the inherited iterator would search for the power of each pair."""

    _mapping: Powers

    def __iter__(self) -> Iterator[tuple[tuple[Any, Any], float]]:
        return zip(self._mapping, self._mapping.dbm.tolist(), strict=True)
