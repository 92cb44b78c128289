"""Lists in README and docs that are generated: studies, flags, lessons, comparison with ns-3, members that algorithms
require of a cost, summary of the papers' report, verdicts on theorems.

``python docs/_lists.py`` rewrites each list between ``<!-- begin: name -->`` and ``<!-- end: name -->``. With
``--check`` it writes nothing, and fails if a list is out of date; `tests/test_docs.py` checks the same. Pages that
consist only of such a list are generated when the site is built.
"""

import csv
import importlib
import inspect
import json
import operator
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from netsim import agents
from netsim.datasets import SETS, UNTRIED
from netsim.studies.catalogue import Parameter, find_study, grouped, listed
from netsim.studies.cli import app

ROOT = Path(__file__).parents[1]
# Names of netsim's two variants in figures.csv and in the tables made from it.
_USUAL, _LIKE_NS3 = "netsim as it is by default", "netsim with ns-3's two habits"
# Groups of cases that share a row, with patterns of the cases' names.
_NS3_GROUPS = {
    "ring 1 to 50": r"ring \d+",
    "hidden 2 to 20": r"hidden \d+",
    "near-far, rooms 12": r"(near-far \d+|rooms .*)(?<! no acks)(?<! short)",
    "two near, two hidden, next channel": r"two .*",
    "no acks, short": r".* (no acks|short)",
    "PER": r"PER .*",
    "Poisson": r"Poisson .*",
}
# The line of a lesson that states its level, duration and prerequisites.
_ABOUT = re.compile(r"\*Level: (\w+)\. Time: (\d+) minutes\. First: (.+)\.\*")
_MARKED = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return the files that may contain a generated list."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]


def rewritten(text: str) -> str:
    """Return a page's text with its lists regenerated."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{LISTS[found[2]]()}\n\n{found[3]}", text)


def studies() -> str:
    """Return a table with a row for each group of studies."""
    rows = ((group, ", ".join(f"`{name}`" for name in entries)) for group, entries in grouped().items())
    return _table(("about", "studies"), rows)


def commands() -> str:
    """Return a table with a row for each command of the command line."""
    found = ((f"`netsim {name}`", (each.help or "").partition("\n")[0]) for name, each in sorted(app.commands.items()))
    return _table(("command", "what it does"), found)


def data_sets() -> str:
    """Return the site's page of data sets: the content, how to get it, the licence and the source of each."""
    rows = []
    for name, known in SETS.items():
        if known.ships:
            how = "ships with netsim"
        elif known.addresses:
            how = "fetched, SHA-256 checked" if known.sha256 else f"fetched; {UNTRIED}"
        else:
            how = f"not fetched: {known.why_not}"
        rows.append((f"`{name}`", known.title, how, known.licence, known.source))
    head = "# Data sets\n\nWhat `netsim data list` shows. [How a data set comes onto a machine](../data.md).\n\n"
    return head + _table(("name", "what it holds", "how it comes here", "licence", "source"), rows) + "\n"


def all_flags() -> str:
    """Return the site's page of flags: commands, flags shared by many studies, and a table for each study."""
    parts = ["# All flags", "", "[How flags work](../flags.md).", "", "## Commands", "", commands()]
    parts += [
        "",
        "## Flags of many studies",
        "",
        shared_flags(),
        "",
        "What `netsim run NAME --help` says of each study:",
    ]
    for study in map(find_study, listed()):
        parts += ["", f"## {study.name}", "", study.title, "", _flag_table(study.parameters)]
    return "\n".join(parts) + "\n"


def shared_flags() -> str:
    """Return a table of the flags that at least half of the studies have: the number of studies, and the meaning."""
    known = [find_study(name) for name in listed()]
    found: dict[str, list[Parameter]] = {}
    for study in known:
        for parameter in study.parameters:
            found.setdefault(_flag(parameter), []).append(parameter)
    rows = (
        (
            flag,
            f"{len(users)} of {len(known)}",
            Counter(each.description for each in users).most_common(1)[0][0],
        )
        for flag, users in sorted(found.items())
        if 2 * len(users) >= len(known)
    )
    return _table(("flag", "studies", "meaning"), rows)


def reproduction() -> str:
    """Return the summary table of the papers' report: for each paper, the number of claims by outcome."""
    report = (ROOT / "benchmarks" / "reports" / "papers.md").read_text(encoding="utf-8")
    return report.partition("## In short\n")[2].partition("\n* ")[0].strip()


def theorems() -> str:
    """Return a table with a row for each statement and verdict, without ranges and failures of the printed form.

    All algorithms and settings with the same statement and verdict share a row.
    """
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    with (ROOT / "docs" / "theory.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["verdict"] != "printed form fails" and "range of" not in row["theorem"]:
                found.setdefault((row["theorem"], row["verdict"]), []).append(row)
    rows = []
    for (theorem, verdict), several in found.items():
        tight = [float(row[name]) for row in several for name in ("tight_min", "tight_max") if row[name]]
        ends = dict.fromkeys(f"{end:.2g}" for end in (min(tight), max(tight))) if tight else ("–",)
        names = ", ".join(dict.fromkeys(row["algorithm"] for row in several))
        rows.append((theorem, names, verdict, " to ".join(ends)))
    return _table(("statement", "of", "verdict", "bound over measured"), rows)


def asked() -> str:
    """Return a table of the sets of members that local steps require of a cost, with the classes that require them."""
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
    """Return a table with a row for each lesson: title, first sentence, level, duration, prerequisites."""
    rows = []
    for path in sorted((ROOT / "docs" / "lessons").glob("*.ipynb")):
        title, *prose = _paragraphs(path)
        about = next((found for each in prose if (found := _ABOUT.fullmatch(each))), None)
        first = next(each for each in prose if not each.startswith("#") and not _ABOUT.fullmatch(each))
        sentence = re.split(r"(?<=[.?!])\s", first)[0]
        rows.append((f"[{title.lstrip('# ')}]({path.name})", sentence, *(about.groups() if about else ("", "", ""))))
    return _table(("lesson", "what it asks", "level", "minutes", "first"), rows)


def ns3_agreement() -> str:
    """Return a table by group of cases and quantity: ns-3's medians, and the deviations of netsim and the model."""
    figures = _figures()
    rows = []
    for group, cases in _NS3_GROUPS.items():
        keys = [key[1:] for key in figures if key[0] == "ns3" and re.fullmatch(cases, key[1])]
        for quantity in dict.fromkeys(quantity for _, quantity in keys):
            these = [(case, name) for case, name in keys if name == quantity]
            medians = [figures["ns3", *key][0] for key in these]
            row = [group, quantity.replace("_", " "), str(len(these)), _span(f"{each:.4g}" for each in _ends(medians))]
            for who in ("netsim", "model"):
                ours = (figures[who, *key][0] for key in these)
                if quantity.endswith("%"):
                    row.append(_span(_signed(each, 2) for each in _ends(map(operator.sub, ours, medians))))
                else:
                    shares = (100.0 * (one / other - 1.0) for one, other in zip(ours, medians, strict=True))
                    row.append(_span(_signed(each, 1) for each in _ends(shares)) + " %")
            rows.append(tuple(row))
    return _table(("cases", "quantity", "how many", "ns-3", "netsim − ns-3", "model − ns-3"), rows)


def _ends(values: Iterable[float]) -> tuple[float, float]:
    found = list(values)
    return min(found), max(found)


def _span(ends: Iterable[str]) -> str:
    return " to ".join(dict.fromkeys(ends))


def _signed(value: float, digits: int) -> str:
    """Return a difference with its sign, unless it rounds to 0."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0.0 else text.replace("-", "−")


def _figures() -> dict[tuple[str, str, str], tuple[float, str]]:
    """Return, for each (source, case, quantity), the median and the text "[least–most]" of the stored figures."""
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
    """Return the site's page of names: each public name with its first line, below its package.

    Constants are omitted. A name that several packages export is listed below the first of them.
    """
    head = (
        "# Names\n\nAll public names of netsim by room, each with the first line of its docstring. The algorithms and "
        "protocols of `netsim.agents` have [a list of their own](../algorithms.md).\n\n"
    )
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
            # The docstring of an instance is that of its class, so it would not describe the instance.
            documented = inspect.isclass(found) or inspect.isroutine(found) or inspect.ismodule(found)
            line = (inspect.getdoc(found) or "").partition("\n")[0] if documented else f"A `{type(found).__name__}`."
            of_room.append((f"`{name}`", line))
        rows += [(f"**`{room}`**", ""), *of_room] if of_room else []
    return head + _table(("name", "what it is"), rows) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "reference/flags.md": all_flags,
    "reference/data_sets.md": data_sets,
    "reference/names.md": names,
}

LISTS: dict[str, Callable[[], str]] = {
    "lessons": lessons,
    "studies": studies,
    "reproduction": reproduction,
    "theorems": theorems,
    "asked": asked,
    "ns3_agreement": ns3_agreement,
}


def _paragraphs(path: Path) -> list[str]:
    """Return the paragraphs of a notebook's prose."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    prose = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
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
    """Write the lists, or check that they are up to date."""
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
