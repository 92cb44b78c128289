"""The report of the papers' study, in Markdown: measured and published values, agreement, and reasons."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from netsim.scenarios.papers import claim
from netsim.scenarios.papers.claim import Found, Judged, Paper
from netsim.scenarios.papers.work import Runs
from netsim.studies import Study
from netsim.studies.results import interval_text

_TITLE = "# What the papers report, and what netsim gets"

_INTRODUCTION = """\
`{command}` wrote this page; it is not edited by hand. The page repeats what the papers report with the studies of
netsim, {seeds} seeds each, and compares our numbers with theirs. Published numbers are quoted from the papers named at
the head of each section. The data are not part of netsim ([scenarios](scenarios.md) describes where they are read
from).
"""

_KEY = """\
* A **printed number** agrees if it lies in the interval that contains 95 % of further runs of ours, by Student's t
  over the seeds (± is half of that interval), apart from rounding of the print. The paper's run could then be one of
  ours. If that interval reaches further than half of the number to either side, agreement would mean nothing: the
  number is *undecided*. A second verdict is whether the number is within 10 % of the median of our seeds.
* A **statement**, such as one about a figure, has a criterion: a measure and its bounds. It agrees if the 95 % interval
  of our mean, by Student's t over the seeds, lies within the bounds, and differs if it lies entirely outside.
  Otherwise it is *undecided*.
* **Differs, cause shown**: with one other setting all of it agrees, which does not prove that the paper used it.
  **Differs, causes excluded**: it does not agree in any of the settings that were run to find the cause. The
  [appendix](#appendix-what-other-settings-gave) has the result of each.
* A claim is **void** if our model does not learn: if the error of the best algorithm of the claim is more than
  {learned:g} times that of the best constant answer (the target's variance; always predicting the largest class). For
  online methods that is the error in the last fifth of the rounds. Agreement is then meaningless, and a difference is
  no evidence about the method. Claims about what learning does not change, such as running times or the links of a
  graph, are never void.
* **No data**: the table that it needs was not available when this was written.
"""

_SHARED_KEY = (
    "The tables of numbers show ours ± half of the interval of a further run (Student's t, n = {seeds} seeds), with "
    "theirs in brackets. A number that differs is **bold**, an undecided one *slanted*; "
    "– means that a run of ours has no such value."
)


def write(
    papers: Mapping[Paper, Sequence[Judged]],
    runs: Mapping[str, Runs],
    seeds: int,
    figures: Mapping[str, str],
    every: Collection[str] = (),
) -> str:
    """Return the report on each paper's judged claims, from the runs by work.

    ``figures`` are captions by file name; ``every`` has the names of all papers, of which some may be left out.
    """
    shown, short = [f"![{caption}]({name})\n" for name, caption in figures.items()], overview(papers)
    lines = [
        _TITLE,
        "",
        *shown[:1],  # begin with the figure that compares all numbers
        _INTRODUCTION.format(seeds=seeds, command=_command(papers, every)),
        "## In short",
        "",
        *_table(list(short[0]), (list(row.values()) for row in short)),
        _KEY.format(learned=claim.LEARNED),
        _SHARED_KEY.format(seeds=seeds),
        "",
        *shown[1:],
    ]
    for paper, claims in papers.items():
        lines += _section(paper, claims)
    lines += ["## Appendix: what other settings gave", ""]
    for paper, claims in papers.items():
        lines += _appendix(paper, claims, runs)
    return "\n".join(lines).rstrip() + "\n"


def _command(papers: Mapping[Paper, Sequence[Judged]], every: Collection[str]) -> str:
    names = [paper.name for paper in papers]
    return f"netsim run papers --only {','.join(names)}" if set(every) - set(names) else "netsim run papers"


def overview(papers: Mapping[Paper, Sequence[Judged]]) -> list[dict[str, object]]:
    """Return a row for each paper: its number of claims, and the number with each outcome."""
    rows: list[dict[str, object]] = []
    for paper, claims in papers.items():
        outcomes = [each.outcome for each in claims]
        counts = {outcome: outcomes.count(outcome) for outcome in claim.OUTCOMES}
        printed = [each for each in claims if _is_printed(each)]
        cells = sum(len(each.found) for each in printed)
        both = sum(each.agreeing for each in printed), sum(each.near for each in printed)
        numbers, close = (f"{number} of {cells}" if cells else "–" for number in both)
        near_ones = {"printed numbers that agree": numbers, "within 10 % of our median": close}
        rows.append({"paper": paper.name, "claims": len(claims), **counts, **near_ones})
    return rows


def answer(study: Study, papers: Mapping[Paper, Sequence[Judged]], seeds: int) -> None:
    """Set the study's answer: how many claims and printed numbers agree. Without measured values, set none."""
    claims = [each for several in papers.values() for each in several if each.found]
    printed = [each for each in claims if _is_printed(each)]
    study.ask("Can what the papers report be repeated?")
    if not claims:
        return
    text = "Of {count} claims {agree} agree, and {part} in part"
    numbers = {"count": len(claims), "agree": sum(each.outcome == claim.AGREES for each in claims)}
    numbers["part"] = sum(each.outcome == claim.IN_PART for each in claims)
    if printed:
        text += "; of {cells} printed numbers {near} lie within 10 % of our median"
        numbers["cells"] = sum(len(each.found) for each in printed)
        numbers["near"] = sum(each.near for each in printed)
    study.answer(f"{text}.", f"Medians of {seeds} seeds, and intervals of a further run (Student's t).", **numbers)


def _is_printed(each: Judged) -> bool:
    """Return whether a claim consists of printed numbers, of which some were measured."""
    return bool(each.found) and each.found[0].cell.published is not None


def near(claims: Sequence[Judged]) -> Iterator[str]:
    """Yield, for each work, the number of printed numbers within 10 % of our median: "coke-energy 41 of 68"."""
    found: dict[str, list[Judged]] = {}
    for each in filter(_is_printed, claims):
        found.setdefault(each.claim.work, []).append(each)
    for name, several in found.items():
        yield f"{name} {sum(each.near for each in several)} of {sum(len(each.found) for each in several)}"


def _table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield a table with its column names, and an empty line."""
    yield from (_line(names), "|" + "---|" * len(names), *map(_line, rows), "")


def _section(paper: Paper, claims: Sequence[Judged]) -> Iterator[str]:
    yield from (f"## {paper.name}", "", f"{paper.title}.", "")
    for text in paper.notes:
        yield from (text, "")
    yield from _by_outcome(claims)
    tables: dict[tuple[str, tuple[str, ...]], list[Judged]] = {}
    for each in claims:
        if _is_printed(each):
            tables.setdefault((each.claim.where, tuple(one.cell.label for one in each.found)), []).append(each)
    for (where, labels), several in tables.items():
        yield from _numbers(where, labels, several)
    statements = [each for each in claims if each.found and not _is_printed(each)]
    if statements:
        reach = interval_text(len(one.values) for each in statements for one in each.found)
        yield from ("### What figures and text say", "")
        names, rows = ["where", "claim", f"ours: mean [{reach}]", "verdict", "criterion"], []
        for each in statements:
            of, ours = each.claim, _interval(each.found[0])
            rows.append((of.where, of.what, ours, _marked(each.verdict), of.criterion))
        yield from _table(names, rows)
    for text in paper.left_out:
        yield from (f"Left out: {text}", "")


def _by_outcome(claims: Sequence[Judged]) -> Iterator[str]:
    """Yield a table of outcomes: a row for each outcome and reason."""
    rows: dict[tuple[str, str], list[str]] = {}
    for outcome in claim.OUTCOMES:
        for each in claims:
            if each.outcome == outcome:
                rows.setdefault((outcome, each.missing or claim.why(each)), []).append(each.claim.title)
    found = [(_marked(outcome), len(which), "; ".join(which), reason) for (outcome, reason), which in rows.items()]
    yield from _table(["outcome", "claims", "which", "why"], found)


def _numbers(where: str, labels: Sequence[str], several: Sequence[Judged]) -> Iterator[str]:
    yield f"### {where.capitalize()}: {', '.join(labels) if len(labels) < 4 else f'{labels[0]} to {labels[-1]}'}"
    yield ""
    rows = []
    for each in several:
        power = _power([one.cell.published for one in each.found if one.cell.published])
        unit = f", in 1e{power}" if power else ""
        cells = [_cell(one, 10.0**power) for one in each.found]
        shares = [f"{number} of {len(each.found)}" for number in (each.agreeing, each.near)]
        agree = claim.VOID if each.void else shares[0]
        rows.append([each.claim.what + unit, *cells, agree, shares[1], claim.typical(each.found)])
    yield from _table(["ours (theirs)", *labels, "agree", "within 10 %", "median off"], rows)


def _power(numbers: Sequence[float]) -> int:
    """Return the power of ten for small numbers; 0 for others."""
    largest = max(map(abs, numbers), default=1.0)
    return 3 * math.floor(math.log10(largest) / 3) if 0 < largest < 0.05 else 0


def _cell(one: Found, unit: float) -> str:
    assert one.cell.published is not None
    theirs = _printed(one.cell.published / unit)
    if not math.isfinite(one.mean):
        return f"**–** ({theirs})"
    half = (one.high - one.low) / 2.0
    text = f"{_short(one.mean / unit)} ± {_short(half / unit, 2)}"
    mark = {claim.DIFFERS: "**", claim.OPEN: "*"}.get(one.verdict, "")
    return f"{mark}{text}{mark} ({theirs})"


def _printed(number: float) -> str:
    """Return a published number with at most four significant digits after its integer part."""
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def _short(number: float, digits: int = 3) -> str:
    """Return a number to some digits, without an exponent for a longer integer part, up to 10¹⁵."""
    if abs(number) >= 1e15 and math.isfinite(number):
        # The number of a diverged run would have hundreds of digits.
        return f"{number:.{digits}g}"
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    return f"{number:.{places}f}" if places < 6 else f"{number:.{digits}g}"


def _interval(one: Found) -> str:
    if not math.isfinite(one.mean):
        return "–"
    return f"{one.mean:.4g} [{one.low:.4g}, {one.high:.4g}]"


def _marked(verdict: str) -> str:
    if verdict in (claim.DIFFERS, claim.CAUSE_SHOWN, claim.EXCLUDED):
        return f"**{verdict}**"
    return f"*{verdict}*" if verdict in (claim.OPEN, claim.VOID, claim.IN_PART) else verdict


def _appendix(paper: Paper, claims: Sequence[Judged], runs: Mapping[str, Runs]) -> Iterator[str]:
    """Yield the results of other settings, the details that the paper omits, and the command of each run."""
    yield from (f"### {paper.name}: other settings", "")
    if tried := [each for each in claims if each.tried]:
        rows = []
        for each in tried:
            others = (f"{key}: {claim.attempt(one)}" for key, one in each.tried.items())
            rows.append((each.claim.title, claim.attempt(each), "; ".join(others)))
        yield from _table(["claim", "as it is", "in other settings"], rows)
    if left := dict.fromkeys(each.claim.open for each in claims if each.claim.open and claim.why(each)):
        yield from ("The paper leaves these points open, and they may matter here:", "")
        yield from (*(f"* {text}." for text in left), "")
    judged_by, done = {each.work for each in paper.claims}, []
    for work in paper.works:
        if not runs[work.name].missing:
            failed = runs[work.name].failed
            some = [f"seeds without a run: {len(failed)} ({next(iter(failed.values()))})"] if failed else []
            judges = work.name in judged_by
            usual = "nothing that the paper states" if judges else "run to explain claims that do not agree"
            done.append((f"`{work.command}`", "; ".join([work.differs or usual, *some])))
    yield from _table(["run, with each seed", "what differs from the paper"], done)


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(" ".join(str(cell).split()).replace("|", "\\|") for cell in cells) + " |"


def table(papers: Mapping[Paper, Sequence[Judged]]) -> list[dict[str, object]]:
    """Return a row for each cell of each claim: the printed value, ours, the interval, and the verdict."""
    rows: list[dict[str, object]] = []
    for paper, claims in papers.items():
        for each in claims:
            about = {"paper": paper.name, "where": each.claim.where, "claim": each.claim.what}
            for one in each.found:
                ours = {"ours": one.mean, "low": one.low, "high": one.high, "seeds": len(one.values)}
                cell = {"cell": one.cell.label, "published": one.cell.published, **ours, "off": one.off}
                near = {} if one.cell.published is None else {"within_10_percent": one.near}
                verdict = claim.VOID if each.void else one.verdict
                rows.append({**about, **cell, "verdict": verdict, **near, "why": claim.why(each)})
            if not each.found:
                rows.append({**about, "verdict": claim.NO_DATA, "why": each.missing})
    return rows
