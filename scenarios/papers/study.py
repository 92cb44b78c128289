"""`netsim run papers`: a report that compares the papers' results, repeated over seeds, with the published ones."""

from pathlib import Path

import pandas as pd

from netsim.scenarios.papers import coke, deep, dynamic, figures, omkl, online, polk, projections, report
from netsim.scenarios.papers.claim import judged
from netsim.scenarios.papers.work import do
from netsim.scenarios.tasks.settings import chosen_names
from netsim.studies import Study
from netsim.util import check

PAPERS = {each.PAPER.name: each.PAPER for each in (coke, online, dynamic, omkl, polk, projections, deep)}
"""The papers by name."""


def papers(
    study: Study,
    *,
    only: str = ",".join(PAPERS),
    seed: int = 0,
    repeats: int = 6,
    jobs: int = 2,
    folder: str = "runs/papers-sweeps",
    redo: bool = False,
) -> None:
    """What the papers report, ours beside theirs: every table and figure that the data at hand allow.

    Each setting is a sweep in a permanent folder, whose finished runs are not repeated, so an interrupted study
    continues when started again. It takes an hour on two cores with the defaults. The report is reproduction.md in the
    run folder; claims.csv has all its numbers.

    Parameters
    ----------
    only : str
        Which papers, with commas between.
    seed : int
        The first seed.
    repeats : int
        Seeds of each setting; a multiple of --jobs leaves no process without work.
    jobs : int
        Number of processes.
    folder : str
        Folder of the sweeps, new or of this study with the same settings.
    redo : bool
        Do once more what was done there with other code or data; without it that is refused.
    """
    wanted = [PAPERS[name] for name in chosen_names("only", only, PAPERS)]
    check.integer("repeats", repeats, low=2)
    check.integer("jobs", jobs, low=1)
    if not folder:
        raise check.refuse("folder", folder, "the name of a folder")
    first = check.integer("seed", seed, low=0)
    seeds = range(first, first + repeats)
    works = [work for paper in wanted for work in paper.works]
    runs = do(works, Path(folder), seeds, jobs, study.reporter, redo=redo)
    found = {paper: [judged(claim, runs) for claim in paper.claims] for paper in wanted}
    captions = figures.draw(study, found, runs)
    study.text("reproduction", report.write(found, runs, repeats, captions, PAPERS))
    report.answer(study, found, repeats)
    for paper, claims in found.items():
        if close := ", ".join(report.near(claims)):
            study.note(f"{paper.name}: printed numbers within 10 % of our median of {repeats} seeds: {close}.")
    missing = dict.fromkeys(each.missing for claims in found.values() for each in claims if each.missing)
    study.note(*(f"No data: {reason}" for reason in missing))
    study.table("verdicts", "Claims by what became of them", pd.DataFrame(report.overview(found)))
    study.tables["claims"] = pd.DataFrame(report.table(found))  # hundreds of rows: kept, not shown
