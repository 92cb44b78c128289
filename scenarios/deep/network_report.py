"""What the study of deep models over a network shows: its tables, figures and notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netsim.core.records import DELIVERED
from netsim.scenarios.deep.maps import Shape
from netsim.scenarios.tasks.classes import MEASURES
from netsim.scenarios.tasks.savings import cost_to_reach
from netsim.scenarios.tasks.settings import Channel
from netsim.studies import Study
from netsim.studies.figures import Axis, curves

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_TIMES = (2.5, 2.0, 1.8, 1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1.05, 1.02, 1.01)
"""Levels of the training loss, in multiples of the centralised model's."""

_ERRORS = (0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02)
_SMOOTH = 0.1
"""Share of the rounds that an online method's errors are drawn as the mean of."""

_COUNTS = ("transmissions", "payload_bits", "wire_bits")


@dataclass(frozen=True)
class Links:
    """The links of a run, and what they are called."""

    channel: Channel

    @property
    def label(self) -> str:
        """What is not ideal about them, as "loss 0.1, latency 0.02"; empty if they are ideal."""
        if self.channel.is_ideal:
            return ""
        usual = Channel()
        parts = [
            f"{name} {getattr(self.channel, name):g}"
            for name in ("loss", "burst", "slot", "latency", "rate", "budget")
            if getattr(self.channel, name) != getattr(usual, name)
        ]
        return ", ".join(parts)

    @property
    def end(self) -> str:
        """The label as the end of a name."""
        return f", {self.label}" if self.label else ""


@dataclass(frozen=True)
class Case:
    """One run of the study.

    Attributes
    ----------
    shape : Shape
        The map.
    method : str
        DKLA, COKE or QC-ODKLA.
    links : Links
        What it ran on.
    best : mapping
        Measures of the centralised model on this map.
    """

    shape: Shape
    method: str
    links: Links
    best: Mapping[str, float]

    @property
    def short(self) -> str:
        """What it is called beside others with the same map."""
        return self.method + self.links.end

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return f"{self.shape.method} {self.short}"


def report(study: Study, cases: Sequence[Case], classes: int, title: str) -> None:
    """Leave the study's tables, notes and figures; the title says of which data and how many agents."""
    rounds = study.rounds
    shapes = list(dict.fromkeys(case.shape for case in cases))
    features = shapes[0].features
    study.note(
        f"{shapes[0].name} and {shapes[1].name} have {features:,} features each: models and messages are "
        f"{features:,} x {classes} matrices, {features * classes:,} trainable parameters."
    )
    study.table("ends", "At the end", _ends(study, cases))
    savings = _savings(rounds, cases)
    if len(savings):
        study.table("cost_to_reach", "Transmissions to reach a training loss, in multiples of the optimum's", savings)
        for text in _savings_said(savings, cases):
            study.note(text)
    errors = rounds.assign(test_error=1.0 - rounds["test_accuracy"])
    bits = cost_to_reach(errors, "test_error", _ERRORS, cost="wire_bits", saves={})
    if len(bits):
        study.table("bits_to_reach", "Bits on the wire to reach a share of test samples misclassified", bits)
    for text in [*_silence_said(study, cases), *_losses_said(study, cases), *_online_said(study, cases)]:
        study.note(text)
    for shape in shapes:
        own = [case for case in cases if case.shape == shape]
        figure = _curves(rounds, own, "train_loss", "training loss", f"{shape.name}, {title}")
        caption = f"The training loss on {shape.name}, for each method and its links."
        study.figure(f"train_loss_{shape.method.lower().replace('-', '_')}", figure, caption)
    first = [case for case in cases if case.links == cases[0].links]
    study.figure(
        "test_error",
        _curves(errors, first, "test_error", "test error (1 − accuracy)", title),
        "The share of test samples that are misclassified, for each map and method.",
    )


def _ends(study: Study, cases: Sequence[Case]) -> "pd.DataFrame":
    """Return the last row of each run, and the centralised models."""
    import pandas as pd

    found = []
    for case in cases:
        last = study.runs[case.name].rounds.iloc[-1]
        kinds = {"map": case.shape.name, "method": case.method, "loss": case.links.channel.loss}
        kinds["links"] = case.links.label or "ideal"
        found.append(kinds | {name: last[name] for name in (*_COUNTS, *MEASURES, "consensus_error", "dual_residual")})
    for shape, best in {case.shape: case.best for case in cases}.items():
        found.append({"map": shape.name, "method": "centralised", **best})
    return pd.DataFrame(found)


def _savings(rounds: "pd.DataFrame", cases: Sequence[Case]) -> "pd.DataFrame":
    """Return, map by map and level by level, the transmissions that each method needed."""
    import pandas as pd

    tables = []
    links = dict.fromkeys(case.links for case in cases)
    for shape in dict.fromkeys(case.shape for case in cases):
        own = {case.name: case for case in cases if case.shape == shape}
        best = next(iter(own.values())).best["train_loss"]
        part = rounds[rounds["algorithm"].isin(list(own))]
        part = part.assign(algorithm=part["algorithm"].map({name: case.short for name, case in own.items()}))
        part = part.assign(times=part["train_loss"] / best)
        table = cost_to_reach(part, "times", _TIMES, saves={_saving(each): _pair(each) for each in links})
        table.insert(0, "map", shape.name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _saving(links: Links) -> str:
    return f"COKE saves %{links.end}"


def _pair(links: Links) -> tuple[str, str]:
    return f"DKLA{links.end}", f"COKE{links.end}"


def _savings_said(savings: "pd.DataFrame", cases: Sequence[Case]) -> list[str]:
    """Return what COKE saved, for each map and kind of links."""
    said = []
    for name, part in savings.groupby("map", sort=False):
        for links in dict.fromkeys(case.links for case in cases):
            # There is no such column if one of the two did not run.
            known = part.reindex(columns=["times", _saving(links)]).dropna()
            if len(known):
                saved, times = known[_saving(links)], known["times"]
                share = _range(f"{saved.min():.0f}", f"{saved.max():.0f}")
                levels = _range(f"{times.max():g}", f"{times.min():g}")
                said.append(
                    f"{name}, {links.label or 'ideal links'}: COKE saves {share} % of DKLA's "
                    f"transmissions to a training loss of {levels} times the optimum's."
                )
    return said


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _losses_said(study: Study, cases: Sequence[Case]) -> list[str]:
    """Return what lost frames did to each run."""
    said = []
    for case in cases:
        run = study.runs[case.name]
        if run.ledger.link_messages <= run.ledger.exits[DELIVERED]:
            continue
        last = run.rounds.iloc[-1]
        ideal = next(c for c in cases if (c.shape, c.method, c.links.label) == (case.shape, case.method, ""))
        loss = study.runs[ideal.name].rounds["train_loss"].iloc[-1]
        beside = f", on ideal links at {loss / ideal.best['train_loss']:.3g} times"
        said.append(
            f"{case.name} missed frames: its duals no longer sum to zero, by {last['dual_residual']:.3g}. It ends at "
            f"{last['train_loss'] / case.best['train_loss']:.3g} times the centralised training loss{beside}, with a "
            f"consensus error of {last['consensus_error']:.3g}."
        )
    return said


def _silence_said(study: Study, cases: Sequence[Case]) -> list[str]:
    """Return which runs sent nothing although there are neighbours."""
    silent = [case.name for case in cases if not study.runs[case.name].ledger.transmissions]
    if not silent or len(next(iter(study.runs.values())).agents) == 1:
        return []
    return [f"{', '.join(silent)}: nothing was ever sent; the threshold is too high for such a model."]


def _online_said(study: Study, cases: Sequence[Case]) -> list[str]:
    """Return what QC-ODKLA achieved, which sees one sample a round where the others see all of theirs."""
    said = []
    for case in cases:
        if case.method == "QC-ODKLA":
            last = study.runs[case.name].rounds.iloc[-1]
            said.append(
                f"{case.name} takes one sample an agent and round, {last['round']:.0f} each, the others all of theirs "
                f"every time: test accuracy {last['test_accuracy']:.3f} beside the centralised "
                f"{case.best['test_accuracy']:.3f}."
            )
    return said


def _smoothed(part: "pd.DataFrame", cases: Sequence[Case], column: str) -> "pd.DataFrame":
    """Return the rows with a measure of online methods as a mean over the last rounds, and that in their names.

    One sample moves an online model to and fro; on axes of batch methods that is a scribble.
    """
    for case in cases:
        rows = part["algorithm"] == case.name
        window = round(_SMOOTH * rows.sum())
        if case.method == "QC-ODKLA" and window > 1:
            smooth = part.loc[rows, column].rolling(window, min_periods=1).mean()
            part = part.assign(**{column: part[column].where(~rows, smooth)})
            part["algorithm"] = part["algorithm"].where(~rows, f"{case.name}, mean of {window} rounds")
    return part


def _curves(rounds: "pd.DataFrame", cases: Sequence[Case], column: str, label: str, title: str) -> "Figure":
    """Draw a measure against rounds, transmissions and bits on the wire, with the centralised models' levels."""
    part = rounds[rounds["algorithm"].isin([case.name for case in cases])]
    part = _smoothed(part[np.isfinite(part[column])], cases, column)
    shapes = {case.shape: case.best for case in cases}
    levels = {
        f"centralised, {shape.method}": best[column] if column in best else 1.0 - best["test_accuracy"]
        for shape, best in shapes.items()
    }
    axes = [Axis(name, log=True) for name in ("round", "transmissions", "wire_bits")]
    return curves(part, Axis(column, log=True, label=label), axes, title, levels)
