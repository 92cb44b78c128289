"""A methods-section paragraph on how a paper's numbers were made, from run folders, as text or LaTeX."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.datasets import SETS
from netsim.errors import BadInput
from netsim.studies import catalogue, compare
from netsim.studies.folder import load
from netsim.studies.outcome import CONVERGED, DEAD, DIVERGED, ENDED, FAILED, STALLED, UNFINISHED
from netsim.studies.paper_tables import in_latex
from netsim.studies.seeds import SEEDS, over_text
from netsim.studies.sweeps.grid import flags_of
from netsim.studies.sweeps.sweep import read_sweep, runs_of, unfinished
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

    from netsim.studies.experiment.results import Results

FORMATS = ("text", "latex")

_DIGITS = 16  # digits of a SHA-256 that suffice to distinguish any two versions
_CLOPPER_PEARSON = (
    "C. J. Clopper and E. S. Pearson. The use of confidence or fiducial limits illustrated in the case of the "
    "binomial. Biometrika 26(4):404–413, 1934."
)
_HOLM = (
    "S. Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6(2):65–70, "
    "1979."
)
_SAID = {"data", "algorithms", "method", *SEEDS}  # parameters that have separate sentences


def methods_section(folder: "str | Path | Results", format: str = "text") -> str:
    """Return a description of how results were made, for the methods section of a paper.

    It names the study, algorithms and papers, data, seeds and parameters, tuning, outcomes, versions, and the hashes of
    sources and files: only facts in the folders.

    Parameters
    ----------
    folder : str, Path or Results
        A folder written by `netsim run` or `netsim sweep`, for a study or an experiment; or an experiment's results.
    format : {"text", "latex"}
        Text with numbered references, or LaTeX with ``\\cite`` and ``thebibliography``.

    Raises
    ------
    BadInput
        If the folder is of another kind or incomplete, or the format is unknown.
    """
    check.one_of("format", format, FORMATS)
    found = _found(folder) if isinstance(folder, str | Path) else OfExperiment(folder.about, folder.runs)
    papers = list(dict.fromkeys([*(paper for each in found.papers().values() for paper in each), *found.cited]))
    sentences = " ".join(filter(None, found.sentences(papers)))
    return _as_latex(sentences, papers) if format == "latex" else _as_text(sentences, papers)


def _found(folder: str | Path) -> "_Found":
    import pandas as pd

    path = Path(folder)
    if (path / "experiment.json").is_file():
        about = json.loads((path / "experiment.json").read_text(encoding="utf-8"))
        if "conditions" not in about:
            raise BadInput(
                f"folder = {str(folder)!r}: must be of this version; run the experiment again, which keeps its runs"
            )
        return OfExperiment(about, pd.read_csv(path / "runs.csv", keep_default_na=False, na_values=[""]))
    places = runs_of(path)
    if not places:
        raise BadInput(f"folder = {str(folder)!r}: must have a point that is done")
    return _Found(path, [load(each) for each in places])


class _Found:
    """The settings of a study's run folders; in its sentences backticks mark code, and ⟦ ⟧ references."""

    cited: tuple[str, ...] = ()

    def __init__(self, folder: Path, runs: Sequence[Mapping[str, Any]]) -> None:
        self.folder = folder
        self.settings = [run["settings"] for run in runs]
        self.summaries = [run["summary"] for run in runs]
        self.parameters = _together(each["parameters"] for each in self.settings)
        # The names of the methods that come from the user's files.
        files = [str(each) for each in self.parameters.get("method", []) if each is not None]
        self.own_methods = {Path(name.strip()).stem for each in files for name in each.split(",")}

    def sentences(self, papers: Sequence[str]) -> Iterator[str]:
        """Yield the sentences; a reference is the index of its paper in ``papers``."""
        yield self._what()
        yield from self._seeds()
        algorithms = [name for each in self.summaries for name in each["algorithms"]]
        yield self._parts("Algorithm", "methods", algorithms, papers)
        yield from self._tuning()
        yield from self._files()
        yield self._parameters()
        yield self._versions()
        yield from self._hashes()
        yield from self._exceptions()

    def papers(self) -> dict[str, list[str]]:
        """Return the references for each algorithm."""
        found = _together(each.get("papers", {}) for each in self.settings)
        return {name: [paper for several in lists for paper in several] for name, lists in found.items()}

    def _several(self) -> dict[str, list[Any]]:
        """Return the parameters with several values, except seeds."""
        if not (self.folder / "sweep.json").is_file():
            return {}
        return {name: self.parameters[name] for name in read_sweep(self.folder).grid.swept if name not in SEEDS}

    def _what(self) -> str:
        (study,), count = {each["study"] for each in self.settings}, len(self.settings)
        versions = _listed(dict.fromkeys(f"{each['netsim']} ({each['core']} core)" for each in self.settings))
        times = "once" if count == 1 else f"{count:,} times"
        title = self._title(study)
        titled = f", “{title}”," if title else ""
        return f"The study `{study}`{titled} of netsim {versions} ran {times}{self._at()}."

    def _at(self, *without: str) -> str:
        """Return a text on the parameters with several values: ", at loss = 0 and 0.1"; "" if there are none."""
        several = [(name, values) for name, values in self._several().items() if name not in without]
        swept = "; ".join(f"`{name}` = {_listed(map(_value, values))}" for name, values in several)
        return f", at {swept}" if swept else ""

    def _title(self, study: str) -> str:
        try:
            return catalogue.find_study(study).title.rstrip(".")
        except BadInput:
            return ""

    def _seeds(self) -> Iterator[str]:
        """Yield sentences on the numbers of seeds, and on seeds that are set separately."""
        given = {name: [each for each in self.parameters.get(name, []) if each is not None] for name in SEEDS}
        apart = {name: values for name, values in given.items() if name != "seed" and values}
        for name, values in given.items():
            if not values:
                continue
            several = f"{len(values)} {over_text(name)}s ({_ranges(values)})"
            with_which = several if len(values) > 1 else f"{over_text(name)} {values[0]}"
            follows = "everything random" + (" that has no seed of its own" if apart else "")
            what = f" of {follows}" if name == "seed" else ""
            yield f"{'Each setting' if self._several() else 'It'} ran with {with_which}{what}."

    def _parts(self, title: str, kind: str, several: Iterable[str], papers: Sequence[str] = ()) -> str:
        """Return a sentence on parts of a kind ("methods"), with their classes, parameters and references."""
        names = dict.fromkeys(several)
        cited: dict[str, list[str]] = self.papers() if papers else {}
        parts = []
        for name in names:
            inside = self._values(kind, name)
            references = "".join(f" ⟦{papers.index(each)}⟧" for each in dict.fromkeys(cited.get(name, [])))
            # A user's class cites the paper of its base class.
            after = " after" if references and name in self.own_methods else ""
            parts.append(f"{name}{f' ({inside})' if inside and name else inside}{after}{references}")
        return f"{title}{'s' if len(parts) > 1 else ''}: {'; '.join(parts)}."

    def _values(self, kind: str, name: str) -> str:
        """Return a part's class and parameters as text."""
        arguments = _together(each.get(kind, {}).get(name, {}) for each in self.settings)
        of = _listed(map(str, arguments.pop("class", [])))
        given = [
            f"{key} {self._by_condition(kind, name, key, each)}"
            for key, each in arguments.items()
            if each not in ([None], [False])
        ]
        return ", ".join([*([f"class {of}"] if of and of != name else []), *given])

    def _by_condition(self, kind: str, part: str, key: str, values: Sequence[Any]) -> str:
        """Return the values of a part's parameter as text; several are assigned to the settings that determine them."""
        swept = list(self._several())
        if len(values) < 2 or not swept:
            return _listed(map(_value, values))
        runs = [(each["parameters"], each[kind][part].get(key)) for each in self.settings if part in each.get(kind, {})]

        # Usually one setting determines the value, such as the loss for which a step size was tuned.
        for names in [*([name] for name in swept), swept]:
            at = _together({tuple(map(given.get, names)): value} for given, value in runs)
            if all(len(several) == 1 for several in at.values()):
                break
        else:
            return _listed(map(_value, values))
        if all(len(where) == 1 and _value(where[0]) == _value(value) for where, (value,) in at.items()):
            return "as swept"
        by_value = _together(
            {_value(value): ", ".join(f"{name} = {_value(each)}" for name, each in zip(names, where, strict=True))}
            for where, (value,) in at.items()
        )
        return _listed(f"{value} (at {' and '.join(where)})" for value, where in by_value.items())

    def _tuning(self) -> Iterator[str]:
        """Yield a sentence on the tuning for each tuning file that the runs recorded."""
        tuned = [each["tuning"] for each in self.settings if each.get("tuning")]
        for several in _together({str(each.get("file")): each} for each in tuned).values():
            first, methods = several[0], dict.fromkeys(name for each in several for name in each.get("methods", ()))
            if not methods:
                continue
            ranges = [pair for each in several for pair in each.get("over", {}).items()]
            by_range = _together({each: who} for who, own in ranges for each in own.items())
            searched = [f"`{name}` of {_listed(who)} in {text}" for (name, text), who in by_range.items()]
            per = [name for name in first.get("per", []) if name != "method"]
            apart = f", for each {_listed(f'`{each}`' for each in per)} apart" if per else ""
            least = f" for the least {first.get('of', 'mean')} `{first['metric']}`" if "metric" in first else ""
            budget = f" in {first['budget']:,} runs at most" if "budget" in first else ""
            if "candidates" in first:
                budget = f" among {first['candidates']} candidates of each, in {first['runs']:,} runs"
            later, best = first.get("validation"), first.get("finalists")
            validated = f", and the best {best} were validated" if best else " and validated"
            on = f"{validated} on {_listed_seeds(later)}" if later else ""
            file = f" (`{first['file']}`)" if first.get("file") else ""
            spent = " No run that is reported here has one of these seeds." if best else ""
            yield (
                f"The settings of {_listed(methods)} were chosen by successive halving{least}{budget}{apart}, over "
                f"{_listed(searched) or 'ranges that were not recorded'}, on {_listed_seeds(first['seeds'])}{on}"
                f"{file}.{spent}"
            )

    def _files(self) -> Iterator[str]:
        data = [str(each) for each in self.parameters.get("data", []) if each is not None]
        digests = _together(each.get("files_sha256", {}) for each in self.settings)
        if data:
            yield f"Data: {_listed(f'`{name}`{_published(name)}' for name in data)}."
        if digests:
            files = [f"`{Path(name).name}` {_digests(several)}" for name, several in digests.items()]
            yield f"Files that were read, with the first {_DIGITS} digits of their SHA-256: {'; '.join(files)}."

    def _parameters(self) -> str:
        said = _SAID | self._several().keys() | self._unused()
        shown = [
            f"`{name} = {_listed(map(_value, values))}`"
            for name, values in self.parameters.items()
            if name not in said and values != [None]
        ]
        return f"The parameters were {', '.join(shown)}; all others were left open." if shown else ""

    def _unused(self) -> set[str]:
        """Return the study parameters whose values no method used, because every method was given another value."""
        if not any(each["parameters"].get(name) for each in self.settings for name in ("set", "settings")):
            return set()
        used = _together(arguments for each in self.settings for arguments in each.get("methods", {}).values())
        return {
            name
            for name, values in self.parameters.items()
            if name in used and not any(_same(value, each) for value in values for each in used[name])
        }

    def _versions(self) -> str:
        packages = _together(each.get("packages", {}) for each in self.settings)
        python = _listed(dict.fromkeys(str(each.get("python", "of unknown version")) for each in self.settings))
        parts = [f"Python {python}", *(f"{name} {_listed(map(str, each))}" for name, each in packages.items())]
        kernels = dict.fromkeys(
            f"{blas['library']} {blas['version']} ({blas['kernel']})"
            for each in self.settings
            for blas in each.get("blas", [])
        )
        platforms = dict.fromkeys(str(each["platform"]) for each in self.settings if "platform" in each)
        where = f", on {_listed(platforms)}" if platforms else ""
        return f"Versions: {', '.join([*parts, *kernels])}{where}."

    def _hashes(self) -> Iterator[str]:
        sources = _together(each.get("source_sha256", {}) for each in self.settings)
        own = [each["file_sha256"] for each in self.settings if "file_sha256" in each]
        parts = [f"the source of {name} {_digests(several)}" for name, several in sources.items()]
        parts += [f"the study's file {_digests([each])}" for each in dict.fromkeys(own)]
        if parts:
            yield f"SHA-256, the first {_DIGITS} digits: {', '.join(parts)}."
        yield from self._traces()

    def _traces(self) -> Iterator[str]:
        traces = [str(each["trace_hash"]) for each in self.summaries]
        if len(traces) == 1:
            yield f"The trace hash is `{traces[0]}`."
        else:
            joint = hashlib.sha256("".join(traces).encode()).hexdigest()[:32]
            yield f"The SHA-256 of the runs' trace hashes, in the order of the sweep, begins with `{joint}`."
        yield f"The command `{self._command()}` repeats this, and `netsim verify` compares the results."

    def _command(self) -> str:
        settings = self.settings[0]
        if (self.folder / "sweep.json").is_file():
            grid = read_sweep(self.folder).grid
            return f"netsim sweep {grid.study} {flags_of(grid.values)}".rstrip()
        if "command" in settings:
            return str(settings["command"])
        return catalogue.run_command(settings["study"], settings["parameters"])

    def _exceptions(self) -> Iterator[str]:
        """Yield sentences on missing points and on runs that diverged."""
        if missing := unfinished(self.folder):
            yield f"The sweep is not whole: {missing.partition(': ')[2]}."
        for line in compare.diverged([str(self.folder)]):
            yield f"{line.partition(', ')[0].partition(':')[0]}."


class OfExperiment(_Found):
    """An experiment as described by its experiment.json, with a row for each run."""

    def __init__(self, about: Mapping[str, Any], runs: "pd.DataFrame") -> None:
        self.about, self.runs = about, runs
        self.judged = dict.fromkeys(runs["judged_by"].dropna().astype(str)) if "judged_by" in runs else {}
        self.judged.pop("", None)
        self.methods = list(dict.fromkeys(name for each in about["conditions"] for name in each["methods"]))
        if self.judged:
            self.cited = (_CLOPPER_PEARSON, _HOLM) if len(self.methods) > 1 else (_CLOPPER_PEARSON,)
        more = {"tuning": about["tuning"], "files_sha256": about["files"], "papers": about["papers"]}
        more |= {"file_sha256": about["file_sha256"]} if about["file"] else {}
        self.settings = [
            {**each, "source_sha256": each.get("source", {}), **more, **condition}
            for each in about["versions"] or [{}]
            for condition in about["conditions"]
        ]
        self.parameters = _together(each["parameters"] for each in about["conditions"])
        self.own_methods = set(about["own"])

    def sentences(self, papers: Sequence[str]) -> Iterator[str]:
        """Yield the sentences; a reference is the index of its paper in ``papers``."""
        yield self._what()
        yield from self._seeds()
        yield self._parts("Method", "methods", self.methods, papers)
        for title, kind in (("Problem", "problems"), ("Network", "networks")):
            if names := [name for each in self.settings for name in each[kind]]:
                yield self._parts(title, kind, names)
        yield from self._tuning()
        yield from self.outcomes()
        yield from self._statistics(papers)
        yield from self._files()
        yield self._versions()
        yield from self._hashes()

    def compared(self) -> dict[str, str]:
        """Return as text, by name: the parts with their values, the settings of the grid, the seeds and the length."""
        found = {
            f"{kind.removesuffix('s')} {name}".strip(): self._values(kind, name) or "without parameters"
            for kind in ("methods", "problems", "networks")
            for name in dict.fromkeys(name for each in self.settings for name in each[kind])
        }
        found |= {
            name: _listed(map(_value, values))
            for name, values in self._several().items()
            if name not in ("problem", "network")
        }
        return found | {"seeds": self._seeds_text(), "length": self._length()}

    def _length(self) -> str:
        if self.about["until"] is not None:
            return f"{self.about['until']:g} s"
        return f"{_listed(map(str, self.about['rounds']))} round{'s' * (self.about['rounds'] != [1])}"

    def _several(self) -> dict[str, list[Any]]:
        return {name: values for name, values in self.parameters.items() if len(values) > 1}

    def _what(self) -> str:
        versions = _listed(dict.fromkeys(f"{each['netsim']} ({each['core']} core)" for each in self.about["versions"]))
        named = f" `{self.about['file']}`" if self.about["file"] else ""
        title = str(self.about.get("title", "")).rstrip(".")
        ran = _count(len(self.methods), "method")
        for word, name in (("on", "problem"), ("over", "network")):
            if name in self._several():
                ran += f" {word} {_count(len(self._several()[name]), name)}"
        return (
            f"The experiment{named}{f', “{title}”,' if title else ''} ran {ran}{self._at('problem', 'network')}, in "
            f"netsim {versions}: {_count(len(self.runs), 'run')} of {self._length()}."
        )

    def _seeds(self) -> Iterator[str]:
        texts = self.about["seeds"]
        of = "" if "," in "".join(texts) else " of everything random"
        several = f"the same {len(texts)} seeds ({self._seeds_text()}){of}"
        yield f"Each combination ran with {several if len(texts) > 1 else texts[0]}."

    def _seeds_text(self) -> str:
        texts = self.about["seeds"]
        plain = [int(each.removeprefix("seed ")) for each in texts if "," not in each]
        return _ranges(plain) if len(plain) == len(texts) else "; ".join(texts)

    def outcomes(self) -> Iterator[str]:
        """Yield sentences on the number of runs with each outcome, the groups with dead runs, and the rule applied."""
        counts = self.runs["outcome"].value_counts()
        states = (CONVERGED, STALLED, UNFINISHED, DIVERGED, FAILED, ENDED)
        shown = [f"{counts[name]:,} {'were ' * (name == UNFINISHED)}{name}" for name in states if name in counts]
        yield f"Of {_count(len(self.runs), 'run')} {_listed(shown)}."
        names = list(self.runs.columns[: list(self.runs.columns).index("outcome")])
        groups = [name for name in names if name != "seed" and (name == "method" or self.runs[name].nunique() > 1)]
        died = self.runs["outcome"].isin(DEAD)
        parts = []
        for key, part in died.groupby([self.runs[name] for name in groups], sort=False, dropna=False):
            where = dict(zip(groups, key, strict=True))
            method = where.pop("method")
            at = ", ".join(f"{name} = {_value(value)}" for name, value in where.items())
            if part.any():
                parts.append(f"{method}{f' at {at}' if at else ''} ({int(part.sum())} of {len(part)})")
        if parts:
            yield f"Those that diverged or failed: {'; '.join(parts)}."
        if self.judged:
            ending = self.about["ending"]
            target, within = ending["target"], f"{ending['within']:.3g}"
            gap = f"within a share {within} of its first gap to the optimum, where that is known"
            level = gap if target is None else f"at or below {target}"
            yield (
                f"By its {_listed(f'`{each}`' for each in self.judged)} a run diverged if it ended at no number or "
                f"above {ending['factor']:g} times the first, converged if it stayed {level}, stalled if the second "
                f"half of its rounds took less than a share {within} off it, and else was unfinished."
            )

    def _statistics(self, papers: Sequence[str]) -> Iterator[str]:
        if not self.judged:
            yield "Medians are over all runs of a group; a run that failed counts as the worst value."
            return
        yield (
            "Medians are over all runs of a group, and one that diverged or failed counts as the worst value; their "
            "95 % intervals are of order statistics, of 6 runs or more, those of the share that survives Clopper and "
            f"Pearson's ⟦{papers.index(_CLOPPER_PEARSON)}⟧."
        )
        if len(self.methods) > 1:
            yield (
                "Methods are compared seed by seed by the two-sided sign test, with p corrected after Holm "
                f"⟦{papers.index(_HOLM)}⟧ for all rows of a table; verdicts on the best, for the methods of one "
                "condition."
            )

    def _traces(self) -> Iterator[str]:
        if command := self.about.get("command"):
            yield f"The command `{command}` repeats this."


def _together(several: Iterable[Mapping[Any, Any]]) -> dict[Any, list[Any]]:
    """Return the distinct values of each key over several mappings, in order of appearance."""
    found: dict[Any, list[Any]] = {}
    for each in several:
        for name, value in each.items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return found


def _same(value: Any, used: Any) -> bool:
    """Return whether a method used a value; a schedule is recorded as text that contains the value."""
    return bool(value == used) or (
        isinstance(used, str) and f"{value:g}" in used if isinstance(value, float) else False
    )


def _digests(several: Iterable[str]) -> str:
    return _listed(f"`{each[:_DIGITS]}`" for each in several)


def _count(count: int, noun: str) -> str:
    """Return a count with its noun: "1 run", "1,200 runs"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _listed_seeds(seeds: Sequence[int]) -> str:
    return f"{'the seeds' if len(seeds) > 1 else 'the seed'} {_ranges(seeds)}"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else json.dumps(value) if isinstance(value, bool) else str(value)


def _ranges(values: Sequence[int]) -> str:
    """Return seeds as text: "0 to 9", or a list."""
    ordered = sorted(values)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]} to {ordered[-1]}"
    return _listed(map(str, ordered))


def _listed(texts: Iterable[str]) -> str:
    *most, last = list(texts) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _published(data: str) -> str:
    """Return where a data set is published, if netsim or a package of studies records it."""
    name = re.sub(r"\.(csv\.gz|csv|npz|parquet)$", "", data)
    found = (each.sources[name] for each in catalogue.registries() if name in each.sources)
    source = SETS[name].source if name in SETS else next(found, "")
    return f" ({source})" if source else ""


# --- as text, as LaTeX ------------------------------------------------------------------------------------------------


def _as_text(sentences: str, papers: Sequence[str]) -> str:
    body = re.sub(r"⟦(\d+)⟧", lambda found: f"[{int(found[1]) + 1}]", sentences.replace("`", ""))
    references = "".join(f"\n[{number}] {paper}" for number, paper in enumerate(papers, 1))
    return f"{body}\n{references}\n" if papers else f"{body}\n"


def _as_latex(sentences: str, papers: Sequence[str]) -> str:
    keys = _keys(papers)
    parts = []
    for number, part in enumerate(sentences.split("`")):
        shown = in_latex(part)
        parts.append(rf"\texttt{{{shown}}}" if number % 2 else shown)
    body = re.sub(r" ?⟦(\d+)⟧", lambda found: rf"~\cite{{{keys[int(found[1])]}}}", "".join(parts))
    if not papers:
        return f"{body}\n"
    items = [rf"\bibitem{{{key}}} {in_latex(paper)}" for key, paper in zip(keys, papers, strict=True)]
    opened = rf"\begin{{thebibliography}}{{{len(papers)}}}"
    return "\n".join([body, "", opened, *items, r"\end{thebibliography}"]) + "\n"


def _keys(papers: Sequence[str]) -> list[str]:
    """Return a key for each reference: the first author's name and the year, with a letter if that occurs twice."""
    found: list[str] = []
    for paper in papers:
        author = re.sub(r"^(?:[^\s.]{1,2}\.[\s-]?)+", "", paper)
        name = unicodedata.normalize("NFKD", re.split(r"[\s,.]", author)[0]).encode("ascii", "ignore").decode()
        years = re.findall(r"\b(?:19|20)\d\d\b", paper)
        key = f"{name.lower() or 'ref'}{years[-1] if years else ''}"
        taken = sum(each.rstrip("abcdefgh") == key or each == key for each in found)
        found.append(key + ("abcdefgh"[taken] if taken else ""))
    return found
