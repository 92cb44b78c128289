"""Shared parts of studies: learning tasks, settings, links, and measures.

To try your own method, get a task from `batch` or `online`: the agents' data on a graph. ``task.cost(node)`` is an
agent's cost, and ``task.measure`` a probe of the agents' models.
"""

from typing import TYPE_CHECKING, Any

from netsim.util import check

if TYPE_CHECKING:
    from netsim.scenarios.tasks.batch_task import BatchTask
    from netsim.scenarios.tasks.online_task import OnlineTask

__all__ = ["batch", "online"]


def batch(data: str = "synthetic", *, ideal: bool = False, seed: int = 0, **setting: Any) -> "BatchTask":
    """Return a task of batch regression: every agent always has all its samples.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the name or path of a table.
    ideal : bool
        Whether the links lose and delay no frame, so that the neighbours' copies need not be measured.
    seed : int
        Seed of data, graph and feature map.
    **setting
        Fields of `netsim.scenarios.tasks.settings.Setting` (agents, edges, features, map, sigma, regularizer) and of
        `netsim.scenarios.tasks.settings.Rows` (rows, target, drop, partition); by default, their published
        values.

    Raises
    ------
    BadInput
        For an unknown name, or an argument outside its range.
    """
    from netsim.scenarios.tasks.problems import KernelRegression
    from netsim.scenarios.tasks.settings import Rows, Setting
    from netsim.studies.experiment import Setup
    from netsim.studies.seeds import Seeds

    rows, size = _split(setting, Rows, Setting)
    return KernelRegression(data=data, rows=Rows(**rows), **size).make(Setup(Seeds(seed=seed), 1, ideal=ideal))


def online(
    data: str = "synthetic", *, rounds: int | None = None, ideal: bool = False, seed: int = 0, **setting: Any
) -> "OnlineTask":
    """Return a task of online regression: every agent sees one sample a round.

    Parameters
    ----------
    rounds : int
        Number of rounds; by default as many as the data have samples for each agent.
    data, ideal, seed, **setting
        As for `batch`; the feature map has a sine and a cosine for each frequency.

    Raises
    ------
    BadInput
        For an unknown name, or an argument outside its range.
    """
    from netsim.scenarios.tasks.online_task import OnlineRegression, OnlineSetting, Stream
    from netsim.studies.experiment import Setup
    from netsim.studies.seeds import Seeds

    columns, size = _split(setting, Stream, OnlineSetting)
    problem = OnlineRegression(data=data, stream=Stream(**columns), setting=OnlineSetting(**size))
    return problem.make(
        Setup(Seeds(seed=seed), 0 if rounds is None else check.integer("rounds", rounds, low=1), ideal=ideal)
    )


def _split(given: dict[str, Any], *groups: type) -> list[dict[str, Any]]:
    """Return the parameters that belong to each group; raises BadInput for an unknown parameter."""
    fields = [set(group.__dataclass_fields__) for group in groups]  # type: ignore[attr-defined]
    for name in given:
        check.one_of("parameter", name, sorted(set().union(*fields)))
    return [{name: value for name, value in given.items() if name in part} for part in fields]
