"""Generate the lists in README and docs: studies, flags, algorithms, lessons, figures of ns-3, reports, theorems.

``python docs/_lists.py`` rewrites them between ``<!-- begin: name -->`` and ``<!-- end: name -->``. With ``--check`` it
writes nothing, and fails if one is out of date; so does `tests/test_docs.py`.
"""

import csv
import importlib
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import netsim
import netsim.agents.classics
from netsim import agents
from netsim.datasets import SETS, UNTRIED
from netsim.radio import Phy
from netsim.studies.catalogue import Parameter, find_study, grouped, listed
from netsim.studies.cli import app

ROOT = Path(__file__).parents[1]
# The names of rows in figures.csv and of their tables.
_USUAL, _LIKE_NS3 = "netsim as it is by default", "netsim with ns-3's two habits"
# A lesson's line that names its level, duration and prerequisites.
_ABOUT = re.compile(r"\*Level: (\w+)\. Time: (\d+) minutes\. First: (.+)\.\*")
_MARKED = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return the files that may hold a list."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]


def rewritten(text: str) -> str:
    """Return a page's text with its lists regenerated."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{LISTS[found[2]]()}\n\n{found[3]}", text)


def studies() -> str:
    """A row for each study, under the row of its group."""
    rows = []
    for group, entries in grouped().items():
        rows += [(f"**{group}**", ""), *((f"`{name}`", entry.title) for name, entry in entries.items())]
    return _table(("study", "what it shows"), rows)


def commands() -> str:
    """A row for each command of the command line."""
    found = ((f"`netsim {name}`", (each.help or "").partition("\n")[0]) for name, each in sorted(app.commands.items()))
    return _table(("command", "what it does"), found)


def data_sets() -> str:
    """A row for each data set: its content, how it is obtained, its licence and its source."""
    rows = []
    for name, known in SETS.items():
        if known.ships:
            how = "ships with netsim"
        elif known.addresses:
            how = "fetched, SHA-256 checked" if known.sha256 else f"fetched; {UNTRIED}"
        else:
            how = f"not fetched: {known.why_not}"
        rows.append((f"`{name}`", known.title, how, known.licence, known.source))
    return _table(("name", "what it holds", "how it comes here", "licence", "source"), rows)


def all_flags() -> str:
    """Return the site's page of flags: a table for each study."""
    parts = ["# Flags of every study", "", "What `netsim run NAME --help` says. [How flags work](../flags.md)."]
    for scenario in map(find_study, listed()):
        parts += ["", f"## {scenario.name}", "", scenario.title, "", _flag_table(scenario.parameters)]
    return "\n".join(parts) + "\n"


def shared_flags() -> str:
    """A row for each flag that at least half of the studies have: the number of studies, and its purpose."""
    scenarios = [find_study(name) for name in listed()]
    found: dict[str, list[Parameter]] = {}
    for scenario in scenarios:
        for parameter in scenario.parameters:
            found.setdefault(_flag(parameter), []).append(parameter)
    rows = (
        (flag, f"{len(users)} of {len(scenarios)}", Counter(each.description for each in users).most_common(1)[0][0])
        for flag, users in sorted(found.items())
        if 2 * len(users) >= len(scenarios)
    )
    return _table(("flag", "studies", "meaning"), rows)


def reproduction() -> str:
    """Return the summary of the papers' report."""
    report = (ROOT / "docs" / "reproduction_report.md").read_text(encoding="utf-8")
    short = report.partition("## In short\n")[2].partition("\nThe tables of numbers show")[0]
    return re.sub(r"\]\((?=[#\w])", "](reproduction_report.md", short).strip()


def theorems() -> str:
    """A row for each statement of the study theory, with all algorithms of one verdict together."""
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    with (ROOT / "docs" / "theory.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["theorem"], row["condition"], row["verdict"]), []).append(row)
    rows = []
    for (theorem, condition, verdict), several in found.items():
        tight = [float(row[name]) for row in several for name in ("tight_min", "tight_max") if row[name]]
        ends = dict.fromkeys(f"{end:.2g}" for end in (min(tight), max(tight))) if tight else ("–",)
        failed, runs = (sum(int(row[name]) for row in several) for name in ("failed", "runs"))
        names = ", ".join(row["algorithm"] for row in several)
        rows.append((theorem, names, condition, verdict, " to ".join(ends), f"{failed} of {runs}"))
    return _table(("statement", "of", "setting", "verdict", "bound over measured", "runs that fail"), rows)


def algorithms() -> str:
    """A row for each agent of netsim.agents."""
    found = [
        (name, kind)
        for name in agents.__all__
        if inspect.isclass(kind := getattr(agents, name)) and issubclass(kind, netsim.Agent)
    ]
    found.sort(key=lambda each: (each[1].__module__, each[0]))
    rows = ((f"`{name}`", _first_line(kind), f"`{kind.__module__}`") for name, kind in found)
    return _table(("class", "what it is", "where"), rows)


def asked() -> str:
    """A row for each set of members that local steps require of a cost, with the classes that require it."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(agents.__all__):
        members = getattr(getattr(getattr(agents, name), "local_step", None), "asks", ())
        if members:
            found.setdefault(members, []).append(f"`{name}`")
    rows = (
        (", ".join(f"`{each}`" for each in ("size", *key)), ", ".join(names)) for key, names in sorted(found.items())
    )
    return _table(("the cost has", "for"), rows)


def lessons() -> str:
    """A row for each lesson: title, first sentence, level, duration, and prerequisites."""
    rows = []
    for path in sorted((ROOT / "docs" / "lessons").glob("*.ipynb")):
        title, *prose = _paragraphs(path)
        about = next((found for each in prose if (found := _ABOUT.fullmatch(each))), None)
        first = next(each for each in prose if not each.startswith("#") and not _ABOUT.fullmatch(each))
        sentence = re.split(r"(?<=[.?!])\s", first)[0]
        rows.append((f"[{title.lstrip('# ')}]({path.name})", sentence, *(about.groups() if about else ("", "", ""))))
    return _table(("lesson", "what it asks", "level", "minutes", "first"), rows)


def classics() -> str:
    """A row for each classic: its description, the lessons that use it, its paper."""
    texts = {path: "\n".join(_cells(path)) for path in sorted((ROOT / "docs" / "lessons").glob("*.ipynb"))}
    rows = []
    for name in agents.classics.__all__:
        kind = getattr(agents.classics, name)
        if issubclass(kind, netsim.Agent):
            used = (path for path, text in texts.items() if re.search(rf"\b{name}\b", text))
            links = ", ".join(f"[{int(path.stem[:2])}](lessons/{path.name})" for path in used)
            rows.append((f"`{name}`", _first_line(kind), links, kind.citation()))
    return _table(("agent", "what it does", "lesson", "paper"), rows)


def ns3(quantities: tuple[str, ...]) -> str:
    """A row for each case and quantity: the results of ns-3, of the model and of netsim."""
    figures = _figures()
    rows = []
    for (who, case, quantity), (median, spread) in figures.items():
        if who != "ns3" or quantity not in quantities:
            continue
        row = [case, *([quantity.replace("_", " ")] if len(quantities) > 1 else []), f"{median:.4g} {spread}"]
        for one in ("model", "netsim"):
            ours, its_spread = figures[one, case, quantity]
            share = ours - median if quantity.endswith("%") else 100.0 * (ours / median - 1.0)
            row += [
                f"{ours:.4g} {its_spread}",
                _signed(share, 2) if quantity.endswith("%") else _signed(share, 1) + " %",
            ]
        rows.append(tuple(row))
    head = ("case", *(["quantity"] if len(quantities) > 1 else []))
    return _table((*head, "ns-3", "model", "− ns-3", "netsim", "− ns-3"), rows)


def ns3_rules() -> str:
    """A row for each change of the rules, a column for each case: kbit/s received, and the difference from ns-3."""
    figures = {(who, case): figure[0] for (who, case, name), figure in _figures().items() if name == "received_kbps"}
    changed = list(dict.fromkeys(who for who, _ in figures if who not in ("ns3", "model", "netsim")))
    of_all = [case for who, case in figures if who == "ns3" and all((one, case) in figures for one in changed)]
    names = [case for case in of_all if not case.endswith(("no acks", "short"))]
    rows = [("ns-3", *(f"{figures['ns3', case]:.4g}" for case in names))]
    for who in ("model", *changed):
        ours = ((figures[who, case], figures["ns3", case]) for case in names)
        rows.append((who, *(f"{one:.4g} ({_signed(100.0 * (one / other - 1.0), 0)} %)" for one, other in ours)))
    return _table(("", *names), rows)


def ns3_kbps(layout: str) -> str:
    """A column for each number of senders in a layout: kbit/s received in ns-3 and in netsim."""
    figures = {(who, case): figure[0] for (who, case, name), figure in _figures().items() if name == "received_kbps"}
    names = [case for who, case in figures if who == "ns3" and re.fullmatch(rf"{layout} \d+", case)]
    theirs, ours, usual = ([figures[who, case] for case in names] for who in ("ns3", "netsim", _USUAL))
    rows = [("ns-3 3.37", *(f"{each:.1f}" for each in theirs)), (_LIKE_NS3, *(f"{each:.1f}" for each in ours))]
    rows.append(("difference", *(_percent(one, other) for one, other in zip(ours, theirs, strict=True))))
    rows.append(("netsim by default", *(f"{each:.1f}" for each in usual)))
    return _table((f"{layout}, senders", *(case.rpartition(" ")[2] for case in names)), rows)


def ns3_frames() -> str:
    """Frames lost in %, by SNR and size: the formula, ns-3 and netsim."""
    figures, sizes = _figures(), (20, 60, 127)
    rows = []
    for snr in (-2, -1, 0, 1):
        cells = []
        for size in sizes:
            case = f"PER {size} B at {snr} dB", "lost_%"
            lost = 100.0 * (1.0 - Phy().success(snr, 8 * (size + 6)))
            cells.append(f"{lost:.1f} / {figures['ns3', *case][0]:.1f} / {figures['netsim', *case][0]:.1f}")
        rows.append((f"{_signed(snr, 0)} dB", *cells))
    return _table(("% lost: formula / ns-3 / netsim", *(f"{size} bytes" for size in sizes)), rows)


def ns3_poisson() -> str:
    """A column for each load: the share received and the mean delay, in ns-3 and in netsim."""
    figures = _figures()
    names = [case for who, case, name in figures if who == "ns3" and name == "delay_ms" and case.endswith(" s")]
    rows: list[tuple[str, ...]] = []
    for quantity, title in (("received_%", "received, %"), ("delay_ms", "delay, ms")):
        theirs, ours = ([figures[who, case, quantity][0] for case in names] for who in ("ns3", "netsim"))
        rows += [
            (f"{title}: {who}", *(f"{each:.4g}" for each in values))
            for who, values in (("ns-3", theirs), ("netsim", ours))
        ]
    rows.append(("difference", *(_percent(one, other) for one, other in zip(ours, theirs, strict=True))))
    return _table(("messages per second and sender", *(case.split()[1] for case in names)), rows)


def _percent(ours: float, theirs: float) -> str:
    return f"{_signed(100.0 * (ours / theirs - 1.0), 1)} %"


def _signed(value: float, digits: int) -> str:
    """Return a difference with its sign, unless it rounds to 0."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0.0 else text.replace("-", "−")


def _figures() -> dict[tuple[str, str, str], tuple[float, str]]:
    """Return the median and "[least–most]" of the stored figures: {(who, case, quantity): ...}."""
    with (ROOT / "benchmarks" / "ns3" / "figures.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return {
        (row["who"], row["case"], row["quantity"]): (
            float(row["median"]),
            f"[{float(row['least']):.4g}–{float(row['most']):.4g}]",
        )
        for row in rows
    }


def names() -> str:
    """A row for each public name, under its package's row, with the first line of its docstring.

    Constants are left out. A name that several packages export is listed in the first of them.
    """
    rows: list[tuple[str, ...]] = []
    shown: set[int] = set()
    stubs = sorted((ROOT / "netsim").rglob("__init__.pyi"), key=lambda stub: (len(stub.parts), stub))
    for stub in stubs:
        room = ".".join(stub.parent.relative_to(ROOT).parts)
        module, of_room = importlib.import_module(room), list[tuple[str, ...]]()
        for name in sorted(module.__all__, key=str.lower):
            found = getattr(module, name)
            if name.startswith("__") or (name.isupper() and not inspect.isclass(found)) or id(found) in shown:
                continue
            shown.add(id(found))
            # An instance has the docstring of its class.
            documented = inspect.isclass(found) or inspect.isroutine(found) or inspect.ismodule(found)
            line = (inspect.getdoc(found) or "").partition("\n")[0] if documented else f"A `{type(found).__name__}`."
            of_room.append((f"`{name}`", line))
        rows += [(f"**`{room}`**", ""), *of_room] if of_room else []
    return _table(("name", "what it is"), rows)


LISTS: dict[str, Callable[[], str]] = {
    "lessons": lessons,
    "names": names,
    "classics": classics,
    "commands": commands,
    "data_sets": data_sets,
    "studies": studies,
    "shared_flags": shared_flags,
    "reproduction": reproduction,
    "theorems": theorems,
    "algorithms": algorithms,
    "asked": asked,
    "ns3_saturated": partial(ns3, ("received_kbps", "first_kbps", "acknowledged_kbps")),
    "ns3_errors": partial(ns3, ("lost_%",)),
    "ns3_loads": partial(ns3, ("received_%", "delay_ms")),
    "ns3_rules": ns3_rules,
    "ns3_ring": partial(ns3_kbps, "ring"),
    "ns3_hidden": partial(ns3_kbps, "hidden"),
    "ns3_frames": ns3_frames,
    "ns3_poisson": ns3_poisson,
}


def _cells(path: Path, kind: str = "code") -> list[str]:
    """Return the texts of a notebook's cells of a kind."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def _paragraphs(path: Path) -> list[str]:
    """Return the paragraphs of a notebook's prose."""
    prose = "\n\n".join(_cells(path, "markdown"))
    prose = re.sub(r"^(#.*)$", r"\n\1\n", prose, flags=re.MULTILINE)
    return [each.strip() for each in re.split(r"\n{2,}", prose) if each.strip()]


def _flag_table(parameters: Iterable[Parameter]) -> str:
    rows = ((_flag(each), each.kind.__name__, _default(each), each.description) for each in parameters)
    return _table(("flag", "type", "default", "meaning"), rows)


def _flag(parameter: Parameter) -> str:
    flag = parameter.name.replace("_", "-")
    return f"`--{flag}`, `--no-{flag}`" if parameter.kind is bool else f"`--{flag}`"


def _default(parameter: Parameter) -> str:
    if parameter.default is None or parameter.default == "":
        return ""
    return f"`{str(parameter.default).lower() if parameter.kind is bool else parameter.default}`"


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Write the lists, or check them."""
    check, old = "--check" in sys.argv[1:], []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = rewritten(text)
        if new != text:
            old.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(new, encoding="utf-8")
    if old:
        print(f"{', '.join(old)}: {'out of date; run python docs/_lists.py' if check else 'written'}")
    return int(check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
