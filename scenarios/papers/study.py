"""`netsim run papers`: what the papers report, repeated over seeds, ours beside theirs, in one report."""

from pathlib import Path

import pandas as pd

from netsim.scenarios.papers import coke, deep, dynamic, figures, omkl, online, polk, projections, report
from netsim.scenarios.papers.claim import Judged, Paper, judged
from netsim.scenarios.papers.work import Runs, do
from netsim.scenarios.tasks.settings import Repeated, chosen_names
from netsim.studies import Study

PAPERS = {each.PAPER.name: each.PAPER for each in (coke, online, dynamic, omkl, polk, projections, deep)}
"""The papers by name."""


def papers(
    study: Study,
    *,
    only: str = ",".join(PAPERS),
    repeated: Repeated = Repeated(folder="runs/papers-sweeps"),
    seed: int = 0,
) -> None:
    """What the papers report, ours beside theirs: every table and figure that the data at hand allow.

    A sweep for each setting, in a folder that stays: what is done there already is not done again, so a run that was
    interrupted goes on when it is started again. An hour on two cores with the defaults. The report is
    reproduction.md in the run folder; claims.csv has every number of it.

    Parameters
    ----------
    only : str
        Which papers, with commas between.
    seed : int
        The first seed.
    """
    wanted = [PAPERS[name] for name in chosen_names("only", only, PAPERS)]
    seeds = repeated.seeds(seed)
    works = [work for paper in wanted for work in paper.works]
    runs = do(works, Path(repeated.folder), seeds, repeated.jobs, study.reporter, redo=repeated.redo)
    found = {paper: [judged(claim, runs) for claim in paper.claims] for paper in wanted}
    _keep(study, found, runs, repeated.repeats)
    study.table("verdicts", "Claims by what became of them", pd.DataFrame(report.overview(found)))
    study.tables["claims"] = pd.DataFrame(report.table(found))  # hundreds of rows: kept, not shown


def _keep(study: Study, found: dict[Paper, list[Judged]], runs: dict[str, Runs], repeats: int) -> None:
    """Leave figures, the report and notes with the study."""
    drawn = figures.draw(found, runs)
    for name, (figure, caption) in drawn.items():
        study.figure(name, figure, f"{caption}.")
    captions = {f"{name}.png": caption for name, (_, caption) in drawn.items()}
    study.text("reproduction", report.write(found, runs, repeats, captions, PAPERS))
    missing = dict.fromkeys(each.missing for claims in found.values() for each in claims if each.missing)
    for paper, claims in found.items():
        close = list(report.near(claims))
        if close:
            study.note(
                f"{paper.name}: printed numbers within 10 % of our median of {repeats} seeds: {', '.join(close)}."
            )
    for reason in missing:
        study.note(f"No data: {reason}")
