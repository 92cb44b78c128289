"""The report of the papers' study, in Markdown: ours beside theirs, what agrees, what does not, and why."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from netsim.results import told_interval
from netsim.scenarios.papers.claim import (
    AGREES,
    DIFFERS,
    LEARNED,
    NO_DATA,
    OPEN,
    VOID,
    Found,
    Judged,
    Paper,
    typical,
    why,
)
from netsim.scenarios.papers.work import Runs

_INTRODUCTION = """\
# What the papers report, and what netsim gets

`{command}` wrote this page; nothing in it is edited by hand. It repeats what the papers report with the studies
of netsim, {seeds} seeds each, and puts ours beside theirs. Published numbers are quoted from the papers named at the
head of each section; the data are not part of netsim ([scenarios](scenarios.md) says where they are looked for).

* A **printed number** agrees if it lies where 95 % of further runs of ours would lie, by Student's t over the seeds
  (± is half of that interval), rounding of the print aside: a paper's run then could be one of ours. Where that
  interval reaches further than half of the number to either side, agreement would say nothing: it is *undecided*.
* A **statement**, such as a figure makes, has a criterion: a measure and its bounds. It agrees if the 95 % interval of
  our mean, by Student's t over the seeds, lies within the bounds, and differs if it lies wholly without; else it is
  *undecided*.
* A claim is **void** where our model does not learn: where the error of the best algorithm that it is about is more
  than {learned:g} times that of the best constant answer (the target's variance; always naming the largest class).
  Agreement is hollow there, and a difference says nothing of the method: it is in neither column. A claim
  stands if it is about what learning does not change: running times, the links of a graph.
* Where something does not agree, other settings are run to find out why, and it says what they gave. *Cause shown*:
  with that one change all of it agrees, which does not prove that the paper used it; and "the cause is not known" means
  just that.
* What says *no data* needs a table that was not at hand when this was written.
"""

_SHARED_KEY = (
    "In the tables: ours ± half of the interval of a further run (Student's t, n = {seeds} seeds), theirs in brackets; "
    "**bold** where it differs, *slanted* where it is undecided; "
    "– where a run of ours has no such value."
)


def write(
    papers: Mapping[Paper, Sequence[Judged]],
    runs: Mapping[str, Runs],
    seeds: int,
    figures: Mapping[str, str],
    every: Collection[str] = (),
) -> str:
    """Return the report.

    Parameters
    ----------
    papers : mapping
        What became of the claims of each paper.
    runs : mapping
        The runs by the name of their work.
    seeds : int
        Number of seeds.
    figures : mapping
        Captions by file name.
    every : collection of str
        The names of all papers, so that it can say if some are not in it.
    """
    lines = [
        _INTRODUCTION.format(seeds=seeds, command=_command(papers, every), learned=LEARNED),
        "## In short",
        "",
        *_overview(papers),
        "",
    ]
    lines += [_SHARED_KEY.format(seeds=seeds), ""]
    for name, caption in figures.items():
        lines += [f"![{caption}]({name})", ""]
    for paper, claims in papers.items():
        lines += _section(paper, claims, runs)
    return "\n".join(lines).rstrip() + "\n"


def _command(papers: Mapping[Paper, Sequence[Judged]], every: Collection[str]) -> str:
    names = [paper.name for paper in papers]
    return f"netsim run papers --only {','.join(names)}" if set(every) - set(names) else "netsim run papers"


def overview(papers: Mapping[Paper, Sequence[Judged]]) -> list[dict[str, object]]:
    """Return a row for each paper: how many claims there are, and what became of them."""
    rows: list[dict[str, object]] = []
    for paper, claims in papers.items():
        verdicts = [each.verdict for each in claims]
        agree, differ, undecided, void, absent = map(verdicts.count, (AGREES, DIFFERS, OPEN, VOID, NO_DATA))
        part = len(claims) - agree - differ - undecided - void - absent
        counts = {"agree": agree, "in part": part, "differ": differ, "undecided": undecided, "void": void}
        counts |= {"no data": absent, "cause shown": sum(bool(each.causes) for each in claims)}
        printed = [each for each in claims if each.found and each.found[0].cell.published is not None]
        cells = sum(len(each.found) for each in printed)
        numbers = f"{sum(each.agreeing for each in printed)} of {cells}" if cells else "–"
        close = f"{sum(one.near for each in printed for one in each.found)} of {cells}" if cells else "–"
        said = {"printed numbers that agree": numbers, "within 10 % of our median": close}
        rows.append({"paper": paper.name, "claims": len(claims), **counts, **said})
    return rows


def near(claims: Sequence[Judged]) -> Iterator[str]:
    """Yield for each work how many printed numbers lie within 10 % of the median of ours: "coke-energy 41 of 68"."""
    found: dict[str, list[bool]] = {}
    for each in claims:
        cells = [one.near for one in each.found if one.cell.published is not None]
        found.setdefault(each.claim.work, []).extend(cells)
    yield from (f"{name} {sum(cells)} of {len(cells)}" for name, cells in found.items() if cells)


def _overview(papers: Mapping[Paper, Sequence[Judged]]) -> Iterator[str]:
    rows = overview(papers)
    yield _line(list(rows[0]))
    yield "|" + "---|" * len(rows[0])
    yield from (_line(list(row.values())) for row in rows)


def _section(paper: Paper, claims: Sequence[Judged], runs: Mapping[str, Runs]) -> Iterator[str]:
    yield from (f"## {paper.name}", "", f"{paper.title}.", "")
    tables: dict[tuple[str, tuple[str, ...]], list[Judged]] = {}
    for each in claims:
        if each.found and each.found[0].cell.published is not None:
            tables.setdefault((each.claim.where, tuple(one.cell.label for one in each.found)), []).append(each)
    for (where, labels), rows in tables.items():
        yield from _numbers(where, labels, rows)
    statements = [each for each in claims if each.found and each.found[0].cell.published is None]
    if statements:
        yield from (
            "### What figures and text say",
            "",
            f"| where | claim | ours: mean [{_told(statements)}] | verdict | criterion |",
            "|---|---|---|---|---|",
        )
        for each in statements:
            one, claim = each.found[0], each.claim
            yield _line([claim.where, claim.what, _interval(one), _marked(each.verdict), claim.criterion])
        yield ""
    yield from _reasons(claims)
    yield from _absent(claims)
    yield from _settings(paper, runs)


def _numbers(where: str, labels: Sequence[str], rows: Sequence[Judged]) -> Iterator[str]:
    yield f"### {where.capitalize()}: {', '.join(labels) if len(labels) < 4 else f'{labels[0]} to {labels[-1]}'}"
    yield ""
    yield _line(["ours (theirs)", *labels, "agree", "median off"])
    yield "|" + "---|" * (len(labels) + 3)
    for each in rows:
        power = _power([one.cell.published for one in each.found if one.cell.published])
        unit = f", in 1e{power}" if power else ""
        cells = [_cell(one, 10.0**power) for one in each.found]
        agree = VOID if each.void else f"{each.agreeing} of {len(each.found)}"
        yield _line([each.claim.what + unit, *cells, agree, typical(each.found)])
    yield ""


def _power(numbers: Sequence[float]) -> int:
    """Return the power of ten in which small numbers are told; 0 of others."""
    largest = max(map(abs, numbers), default=1.0)
    return 3 * math.floor(math.log10(largest) / 3) if 0 < largest < 0.05 else 0


def _cell(one: Found, unit: float) -> str:
    assert one.cell.published is not None
    theirs = _printed(one.cell.published / unit)
    if not math.isfinite(one.mean):
        return f"**–** ({theirs})"
    half = (one.high - one.low) / 2.0
    text = f"{_short(one.mean / unit)} ± {_short(half / unit, 2)}"
    mark = {DIFFERS: "**", OPEN: "*"}.get(one.verdict, "")
    return f"{mark}{text}{mark} ({theirs})"


def _printed(number: float) -> str:
    """Return a published number with at most four digits after those before its point."""
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def _short(number: float, digits: int = 3) -> str:
    """Return a number with so many digits, without an exponent where it has more before its point, up to 10¹⁵."""
    if abs(number) >= 1e15 and math.isfinite(number):
        # What diverged would fill the table.
        return f"{number:.{digits}g}"
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    return f"{number:.{places}f}" if places < 6 else f"{number:.{digits}g}"


def _told(statements: Sequence[Judged]) -> str:
    """Return which interval of a statement's mean is shown, and of how many seeds."""
    return told_interval(len(one.values) for each in statements for one in each.found)


def _interval(one: Found) -> str:
    if not math.isfinite(one.mean):
        return "–"
    return f"{one.mean:.4g} [{one.low:.4g}, {one.high:.4g}]"


def _marked(verdict: str) -> str:
    return f"**{verdict}**" if verdict == DIFFERS else f"*{verdict}*" if verdict in (OPEN, VOID) else verdict


def _reasons(claims: Sequence[Judged]) -> Iterator[str]:
    """Yield why claims do not agree; those with the same reason together."""
    told: dict[str, list[str]] = {}
    for each in claims:
        text = why(each)
        if text:
            told.setdefault(text, []).append(f"{each.claim.where}, {each.claim.what} ({each.verdict})")
    if not told:
        return
    yield from ("### What does not agree", "")
    for text, which in told.items():
        yield f"* {'; '.join(which)}. {text}"
    yield ""
    left = dict.fromkeys(each.claim.open for each in claims if each.claim.open and why(each))
    if left:
        yield "The papers leave open what may matter here:"
        yield ""
        yield from (f"* {text}." for text in left)
        yield ""


def _absent(claims: Sequence[Judged]) -> Iterator[str]:
    absent: dict[str, list[str]] = {}
    for each in claims:
        if each.missing:
            absent.setdefault(each.missing, []).append(f"{each.claim.where}, {each.claim.what}")
    if not absent:
        return
    yield from ("### No data", "")
    for reason, which in absent.items():
        yield f"* {reason}: {'; '.join(which)}."
    yield ""


def _settings(paper: Paper, runs: Mapping[str, Runs]) -> Iterator[str]:
    yield from ("### Settings", "", "| run, with each seed | what differs from the paper |", "|---|---|")
    for work in paper.works:
        if not runs[work.name].missing:
            failed = runs[work.name].failed
            some = [f"seeds without a run: {len(failed)} ({next(iter(failed.values()))})"] if failed else []
            about = [work.differs or _tried_only(paper, work.name), *some]
            yield _line([f"`{work.command}`", "; ".join(about)])
    yield ""
    for text in paper.left_out:
        yield f"Left out: {text}"
        yield ""


def _tried_only(paper: Paper, name: str) -> str:
    judged_by = {claim.work for claim in paper.claims}
    return "nothing that the paper says" if name in judged_by else "tried where a claim does not agree"


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(" ".join(str(cell).split()).replace("|", "\\|") for cell in cells) + " |"


def table(papers: Mapping[Paper, Sequence[Judged]]) -> list[dict[str, object]]:
    """Return a row for each cell of each claim: theirs, ours, the interval, the verdict."""
    rows: list[dict[str, object]] = []
    for paper, claims in papers.items():
        for each in claims:
            about = {"paper": paper.name, "where": each.claim.where, "claim": each.claim.what}
            for one in each.found:
                ours = {"ours": one.mean, "low": one.low, "high": one.high, "seeds": len(one.values)}
                cell = {"cell": one.cell.label, "published": one.cell.published, **ours, "off": one.off}
                rows.append({**about, **cell, "verdict": VOID if each.void else one.verdict, "why": why(each)})
            if not each.found:
                rows.append({**about, "verdict": NO_DATA, "why": each.missing})
    return rows


def spread(cells: Sequence[Found]) -> tuple[float, float, float]:
    """Return the smallest, the median and the largest of ours over theirs, of the cells that have both."""
    ratios = [1.0 + one.off for one in cells if math.isfinite(one.off)]
    if not ratios:
        return math.nan, math.nan, math.nan
    return float(np.min(ratios)), float(np.median(ratios)), float(np.max(ratios))
