"""Streams of samples for online methods: which, how many, in which order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netsim.agents.costs.stream import Samples
from netsim.agents.maps.features import FeatureMap
from netsim.scenarios.data.streams import by_target, in_order, rounds_of, shuffled
from netsim.scenarios.data.tables import Table, check_rows, load_prepared, pooled, synthetic
from netsim.scenarios.tasks.settings import TABLES, Prepared, Setting
from netsim.util import check


@dataclass(frozen=True, kw_only=True)
class Stream(Prepared):
    """Which samples of a table are used, how they are scaled, and in which order they come.

    Parameters
    ----------
    rounds : int
        Number of rounds; by default as many as the data have samples for each agent.
    order : str
        "shuffled"; "time": rows in file order; "target": rows sorted by target, each agent another part of them.
    mixing : float
        With order "target": share of the rows that is dealt at random all the same.
    """

    TABLE = "online_settings"

    rounds: int | None = None
    order: str = "shuffled"
    mixing: float = 0.0

    def load(self, data: str, agents: int, seed: int) -> Table:
        """Return the samples; raises BadInput for arguments outside their ranges, or too few samples."""
        check.one_of("order", self.order, ("shuffled", "time", "target"))
        check.probability("mixing", self.mixing)
        if data == "synthetic":
            self.check_left_out(data)
            return pooled(synthetic(20, seed=seed))
        check_rows(data, agents)
        return load_prepared(data, self)

    def length(self, table: Table, agents: int) -> int:
        """Return the number of rounds; raises BadInput if the samples do not suffice."""
        most = rounds_of(table, agents)
        return most if self.rounds is None else check.integer("rounds", self.rounds, low=1, high=most)

    def dealt(self, table: Table, agents: int, phi: FeatureMap, seed: int) -> Callable[[], Sequence[Samples]]:
        """Return a function that deals the samples, the same each time."""
        if self.order == "time":
            return lambda: in_order(table, agents, phi)
        if self.order == "target":
            return lambda: by_target(table, agents, phi, mixing=self.mixing, seed=seed)
        return lambda: shuffled(table, agents, phi, seed)


@dataclass(frozen=True, kw_only=True)
class OnlineSetting(Setting):
    """The size of the network and of the model, where left open as the dissertation's ch. 3 has it."""

    TABLE = "online_settings"
    USUAL_CONVENTIONS = TABLES
