"""The data sets of the studies: tables and a synthetic problem, and their division among agents."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netsim.agents.maps.features import kernel_matrix
from netsim.errors import BadInput
from netsim.scenarios.data.choice import Columns, Preparation, choose
from netsim.scenarios.data.formats import samples_in
from netsim.scenarios.data.partitions import EVENLY, Partition
from netsim.util import check


@dataclass(frozen=True)
class Table:
    """Samples of a regression or two-class problem: inputs of shape (n, d), in the units of the file unless scaled.

    ``target``, shape (n,), is the quantity to predict. ``notes`` describe how a table's target was interpreted, for the
    study's notes.
    """

    name: str
    inputs: NDArray[np.float64]
    target: NDArray[np.float64]
    input_columns: tuple[str, ...]
    target_column: str
    notes: tuple[str, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """The notes on changed or omitted cells, without the note on the target."""
        return self.notes[1:]


@dataclass(frozen=True)
class AgentData:
    """One agent's samples for training and for testing: inputs of shape (T, d), targets of shape (T,)."""

    train_inputs: NDArray[np.float64]
    train_target: NDArray[np.float64]
    test_inputs: NDArray[np.float64]
    test_target: NDArray[np.float64]


def load_table(data: str, choice: Columns | None = None) -> Table:
    """Read a table of numbers, by its name in NETSIM_DATA or the cache, or its path.

    A text file starts with a line of column names. The time columns of airquality and energy are left out;
    codes for missing values, such as airquality's −200, are kept as they are.

    Parameters
    ----------
    data : str
        Name or path, as for `netsim.scenarios.data.files.find_table`: .csv.gz, .csv, .npz, .parquet.
    choice : Columns, optional
        The column to predict, by default the last one, and the columns to leave out. All others are inputs.

    Raises
    ------
    BadInput
        If the file is missing, damaged, empty or not a table, if a named column does not exist, or if a column holds
        text, dates, NaN or infinity.
    """
    chosen = choose(data, Columns() if choice is None else choice)
    inputs = np.column_stack([chosen.column(each) for each in chosen.input_columns])
    target, names = chosen.column(chosen.target), tuple(chosen.input_columns)
    return Table(chosen.name, inputs, target, names, chosen.target, chosen.notes)


def load_prepared(data: str, preparation: Preparation) -> Table:
    """Read a table of numbers, choose its rows, and scale inputs and target to [0, 1]; constant columns become 0.

    The target is always scaled by its own minimum and maximum. Raises BadInput as `load_table` does, and for an unknown
    scaling, or too many rows.
    """
    scaling = check.one_of("scaling", preparation.scaling or "column", ("column", "whole"))
    table = load_table(data, preparation)
    if preparation.first is not None:
        count = check.integer("first", preparation.first, low=1, high=len(table.target))
        table = replace(table, inputs=table.inputs[:count], target=table.target[:count])
    if preparation.within is not None:
        most = check.finite("within", preparation.within, above=0.0) * table.target.std()
        kept = np.abs(table.target - table.target.mean()) < most
        table = replace(table, inputs=table.inputs[kept], target=table.target[kept])
        if not kept.any():
            raise check.refuse("within", preparation.within, "such that a row is left")
    if scaling == "column":
        return scale_unit(table)
    return replace(table, inputs=unit(table.inputs, axis=None), target=unit(table.target))


def check_rows(data: str, agents: int, *, each: int = 1, rows: int | None = None) -> int:
    """Return the number of a table's rows that a study uses, as a cheap check before the study is built.

    Each agent needs ``each`` rows; ``rows`` are used, by default all. Raises BadInput for an unknown table, if it has
    fewer rows than requested, or if they are too few for the agents.
    """
    return enough(samples_in(data), agents, each, rows)


def enough(count: int, agents: int, each: int, rows: int | None = None) -> int:
    """Return the number of samples used, by default all; raise BadInput unless each agent gets at least ``each``."""
    if rows is not None:
        count = check.integer("rows", rows, low=1, high=count)
    check.integer("agents", agents, low=1)
    if count < each * agents:
        samples = "1 sample" if each == 1 else f"{each} samples"
        raise BadInput(f"agents = {agents}: must be at most {count // each}, for {samples} each of {count}")
    return count


def scale_unit(table: Table) -> Table:
    """Return the table with each input column and the target scaled to [0, 1]; constant ones become 0."""
    return replace(table, inputs=unit(table.inputs), target=unit(table.target))


def deal(
    table: Table,
    agents: int,
    *,
    train_share: float = 0.7,
    seed: int,
    rows: int | None = None,
    partition: Partition = EVENLY,
    classes: int = 0,
) -> list[AgentData]:
    """Shuffle the samples, divide them among the agents, and split each agent's share.

    By default the agents' numbers of samples differ by at most one. A share ``train_share`` in (0, 1) of an agent's
    samples is for training, rounded so that at least one sample is for training and one for testing. With ``rows``,
    this number of samples is first drawn at random. ``classes`` is the number of classes if the target is a class.
    Raises BadInput if an argument is outside its range, an agent would get fewer than two samples, or the samples do
    not allow the partition.
    """
    check.integer("agents", agents, low=1)
    if not 0.0 < check.probability("train_share", train_share) < 1.0:
        raise check.refuse("train_share", train_share, "between 0 and 1")
    count = enough(len(table.target), agents, 2, rows)
    order = np.random.default_rng(check.integer("seed", seed, low=0)).permutation(len(table.target))[:count]
    shares = [order[part] for part in partition.divide(table.target[order], agents, seed=seed, classes=classes)]
    return [_split(table.inputs[share], table.target[share], train_share) for share in shares]


def split_rows(table: Table, share: float, *, seed: int) -> tuple[Table, Table]:
    """Return a random share of a table's rows, and the other rows; both keep the order of the rows.

    Raises BadInput if either part would be empty.
    """
    count = round(check.probability("share", share) * len(table.target))
    if not 0 < count < len(table.target):
        raise check.refuse("share", share, f"such that neither part of {len(table.target)} rows is empty")
    drawn = np.zeros(len(table.target), dtype=bool)
    drawn[np.random.default_rng(check.integer("seed", seed, low=0)).permutation(len(drawn))[:count]] = True
    first, second = (replace(table, inputs=table.inputs[rows], target=table.target[rows]) for rows in (drawn, ~drawn))
    return first, second


def pooled(parts: Sequence[AgentData], name: str = "synthetic") -> Table:
    """Return all agents' samples as one table."""
    inputs = np.concatenate([each for part in parts for each in (part.train_inputs, part.test_inputs)])
    target = np.concatenate([each for part in parts for each in (part.train_target, part.test_target)])
    return Table(name, inputs, target, tuple(f"x{i}" for i in range(inputs.shape[1])), "y")


def training(parts: Sequence[AgentData]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the inputs and targets of all agents' training samples."""
    return np.concatenate([part.train_inputs for part in parts]), np.concatenate([part.train_target for part in parts])


def synthetic(agents: int, *, seed: int, samples: tuple[int, int] = (4000, 6000)) -> list[AgentData]:
    """Draw the synthetic regression problem of Xu, Wang, Chen and Tian, "COKE", 2021, §5.1.

    Agent i holds T_i samples y = Σ_{m=1..50} b_m κ(c_m, x) + e, with b ~ U[0, 1], c and x ~ N(0, I₅), noise e of
    variance 0.1, and κ the Gaussian kernel of bandwidth 5; T_i is uniform between the two numbers of ``samples``.
    Inputs and target are then scaled to [0, 1], column by column, over all agents together; the first 70 % of each
    agent's samples train. Before the scaling, agent i's samples do not depend on the number of agents.
    """
    check.integer("agents", agents, low=1)
    check.integer("seed", seed, low=0)
    if not isinstance(samples, Sequence) or len(samples) != 2:
        raise check.refuse("samples", samples, "a pair (smallest, largest)")
    low = check.integer("samples[0]", samples[0], low=2)
    high = check.integer("samples[1]", samples[1], low=low)
    check.fits("agents", agents, 8 * (5 + 1) * low * agents, "the samples of that many")
    common, *own = (np.random.default_rng(each) for each in np.random.SeedSequence(seed).spawn(1 + agents))
    weights = common.uniform(0.0, 1.0, 50)
    centres = common.standard_normal((50, 5))
    inputs, targets = [], []
    for rng in own:
        x = rng.standard_normal((int(rng.integers(low, high, endpoint=True)), 5))
        noise = rng.normal(0.0, np.sqrt(0.1), len(x))
        inputs.append(x)
        targets.append(kernel_matrix("gaussian", x, centres, 5.0) @ weights + noise)
    ends = np.cumsum([len(x) for x in inputs])[:-1]
    scaled_inputs = np.split(unit(np.concatenate(inputs)), ends)
    scaled_targets = np.split(unit(np.concatenate(targets)), ends)
    return [_split(x, y, 0.7) for x, y in zip(scaled_inputs, scaled_targets, strict=True)]


def _split(inputs: NDArray[np.float64], target: NDArray[np.float64], train_share: float) -> AgentData:
    cut = min(max(round(train_share * len(target)), 1), len(target) - 1)
    return AgentData(inputs[:cut], target[:cut], inputs[cut:], target[cut:])


def unit(array: NDArray[np.float64], axis: int | None = 0) -> NDArray[np.float64]:
    """Return an array scaled to [0, 1] by column, or as a whole with axis None; constant parts become 0."""
    low = array.min(axis=axis)
    span = array.max(axis=axis) - low
    result: NDArray[np.float64] = (array - low) / np.where(span > 0.0, span, 1.0)
    return result
