"""The division of samples among agents: a table, a figure and a note, if the division is not even and random."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.scenarios.data.partitions import IID, labels_of
from netsim.scenarios.data.tables import AgentData
from netsim.scenarios.tasks.settings import Divided
from netsim.studies import Study
from netsim.studies.figures import Figure, drawing, legend_below
from netsim.util.typing import Array

_NAMED = 20
"""The largest number of labels that a legend names; more labels are shown by a colour scale."""


def tell_division(study: Study, parts: Sequence[AgentData], divided: Divided, classes: Sequence[str] = ()) -> None:
    """Add the table and the figure ``partition``, and a note, to a study; nothing if samples are divided iid.

    Parameters
    ----------
    parts : sequence of AgentData
        Each agent's samples.
    divided : Divided
        How they were divided.
    classes : sequence of str
        Names of the classes; empty for numeric targets, which are shown in ten bins with equal numbers of samples.
    """
    if divided.divided().kind == IID:
        return
    targets = [np.concatenate([part.train_target, part.test_target]) for part in parts]
    more = {"training": [len(part.train_target) for part in parts]}
    _tell(study, targets, divided, classes, more, "The samples of each agent, to train on and to test on, by ")


def tell_streams(
    study: Study, targets: Sequence[Array], drawn: int, divided: Divided, classes: Sequence[str] = ()
) -> None:
    """Add the same for agents with streams of their own samples, and a note on the agents that reuse samples.

    Parameters
    ----------
    targets : sequence of array
        The targets of each agent's samples; class numbers if there are classes.
    drawn : int
        The number of samples that each agent draws in total.
    divided, classes
        As for `tell_division`.
    """
    if divided.divided().kind == IID:
        return
    passes = [drawn / len(each) for each in targets]
    _tell(study, targets, divided, classes, {"passes": passes}, "The samples of each agent, by ")
    again = sum(each > 1.0 for each in passes)
    if again:
        study.note(
            f"Each agent draws {drawn:,} samples: {again} of {len(targets)} agents have fewer, and draw theirs again, "
            f"up to {max(passes):,.1f} times (passes in partition.csv)."
        )


def _tell(
    study: Study,
    targets: Sequence[Array],
    divided: Divided,
    classes: Sequence[str],
    more: Mapping[str, Sequence[float]],
    caption: str,
) -> None:
    """Add the table, the note and the figure; ``more`` are further columns of the table."""
    counts = counted(targets, classes)
    kind = "class" if classes else "target"
    table = counts.rename(columns=lambda name: f"{kind} {name}").rename_axis("agent").reset_index()
    table.insert(1, "samples", counts.sum(axis=1).to_numpy())
    for place, (name, values) in enumerate(more.items(), 2):
        table.insert(place, name, values)
    study.tables["partition"] = table
    sizes, held = table["samples"], (counts > 0).sum(axis=1)
    study.note(
        f"Partition {divided.partition}: each of {len(targets)} agents has {_range(sizes)} samples, of {_range(held)} "
        f"of {counts.shape[1]} {'classes' if classes else 'bins of the target'} (partition.csv)."
    )
    title = f"Who has what: partition {divided.partition}, {len(targets)} agents"
    caption += (
        "their class."
        if classes
        else "the bin of their target; the bins have as many samples each, as far as equal targets allow."
    )
    study.figure("partition", partial(_draw, counts, "class" if classes else "target", title), caption)


def counted(targets: Sequence[Array], classes: Sequence[str] = ()) -> pd.DataFrame:
    """Return each agent's (row) number of samples in each class or bin of the target (column)."""
    together = np.concatenate(targets)
    labels = labels_of(together, len(classes))
    names = list(classes)
    if not names:
        names = [_ends(together[labels == label]) for label in range(labels.max() + 1)]
    owners = np.repeat(np.arange(len(targets)), [len(each) for each in targets])
    counts = pd.crosstab(owners, labels).reindex(columns=range(len(names)), fill_value=0).to_numpy()
    return pd.DataFrame(counts, columns=names)


def _ends(values: NDArray[np.float64]) -> str:
    low, high = values.min(), values.max()
    return f"= {low:.4g}" if low == high else f"in [{low:.4g}, {high:.4g}]"


def _range(values: "pd.Series[int]") -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _draw(counts: pd.DataFrame, kind: str, title: str) -> Figure:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    agents, labels = counts.shape
    figure, panel = drawing(min(max(6.4, 2.0 + 0.3 * agents), 14.0), 4.8, title=title, grid="")
    # Bins are ordered, classes are not.
    ordered = kind != "class" or labels > _NAMED
    scale = colormaps["viridis" if ordered else "tab10" if labels <= 10 else "tab20"]
    colours = [scale(number / max(labels - 1, 1) if ordered else number) for number in range(labels)]
    below = np.zeros(agents)
    for name, colour in zip(counts, colours, strict=True):
        panel.bar(np.arange(agents), counts[name], 0.85, bottom=below, color=colour, label=f"{kind} {name}")
        below += counts[name].to_numpy()
    panel.set(xlabel="agent", ylabel="samples")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlim(-0.6, agents - 0.4)
    if labels <= _NAMED:
        legend_below(figure)
    else:
        shown = ScalarMappable(cmap=ListedColormap(colours))
        shown.set_clim(-0.5, labels - 0.5)
        figure.colorbar(shown, ax=panel, label="number of the class")
    return figure
