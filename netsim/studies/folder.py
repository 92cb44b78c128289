"""Writing and reading run folders."""

import itertools
import json
import math
import numbers
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import numpy as np

from netsim.errors import BadInput, NetsimError, one_line
from netsim.studies.figures import fit_to_page
from netsim.studies.formats import FIGURES, OF_EVERY_RUN, find_table, read_table, write_figure, write_table
from netsim.studies.origin import about, environment
from netsim.studies.page import NAME as PAGE
from netsim.studies.page import page
from netsim.studies.reserve import Reservation, reserve
from netsim.studies.sums import check_files, read_sums, write_sums
from netsim.util import check
from netsim.util.hashing import hash_seed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from netsim.studies.study import Study


class Unsaved(NetsimError):  # noqa: N818  names that say what happened
    """Results could not all be saved in their place; the message names the place where they are."""


def save(study: "Study", place: Reservation) -> Path:
    """Write a study's run folder to a reserved place and return it.

    Raises Unsaved if a file could not be made, or if the folder had to go to the temporary directory.
    """
    try:
        failed = write(study, place.parts, report=True)
        place.publish()
    except OSError as error:
        # Release the reservation first: its files may fill the disk of the temporary directory.
        place.close()
        raise _rescued(study, f"out = {place.shown!r}: could not be written ({_reason(error)})") from error
    if failed:
        raise Unsaved(f"{_and(failed)}; the rest is in {place.shown}")
    return place.folder


def _rescued(study: "Study", why: str) -> Unsaved:
    """Write a run folder into the temporary directory; return the error with the reason and that place."""
    folder: Path | None = None
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"netsim-{Path(study.name).stem[:40]}-"))
        with reserve(folder) as place:
            failed = write(study, place.parts, report=True)
            place.publish()
    except (OSError, BadInput) as error:
        if folder is not None:
            with suppress(OSError):
                folder.rmdir()
        return Unsaved(f"{why}; nor could it in {_temporary()} ({_reason(error)}): the results are lost")
    return Unsaved(f"{why}; the results are in {folder}{'; ' if failed else ''}{_and(failed)}")


def write(study: "Study", folder: Path, *, report: bool = False) -> dict[str, str]:
    """Write a study's files into an empty folder, SHA256SUMS last; with ``report``, also report.html.

    Return the reasons, by file, why files could not be made. Raise OSError if the folder cannot be written.
    """
    failed: dict[str, str] = {}

    def put(name: str, make: Callable[[Path], Any]) -> None:
        try:
            make(folder / name)
        except OSError:
            raise
        except Exception as error:
            # One figure that cannot be drawn must not lose hours of work.
            failed[name] = f"{type(error).__name__}: {one_line(error)}"
            (folder / name).unlink(missing_ok=True)

    put("settings.json", lambda path: _write_json(path, _settings(study)))
    kind = study.formats.tables
    put(f"rounds.{kind}", lambda path: write_table(path, study.rounds))
    put(f"ledger.{kind}", lambda path: write_table(path, study.ledger))
    for name, run in study.runs.items() if study.keeps_trace else ():
        put(trace_name(name), run.trace.save)
    for name, table in {"states": study.states, "notes": study.remarks, **study.tables}.items():
        if table is not None:
            put(f"{name}.{kind}", partial(write_table, table=table))
    if study.formats.figures:
        fit_to_page(_drawn(study))
    for name, ending in itertools.product(study.figures, study.formats.figures):
        put(f"{name}.{ending}", partial(_draw, name=name, study=study))

    for name, content in study.texts.items():
        put(f"{name}.md", partial(_write_text, content=content))

    if report:
        put(PAGE, lambda path: _write_text(path, _page(study, folder, failed)))

    put("summary.json", lambda path: _write_json(path, study.summary() | {"failed": failed}))
    write_sums(folder)
    return failed


def _drawn(study: "Study") -> "list[Figure]":
    """Return a study's figures without those that cannot be drawn, whose reason is reported when files are written."""
    figures = []
    for name in study.figures:
        with suppress(Exception):
            figures.append(study.figures[name])
    return figures


def _draw(path: Path, name: str, study: "Study") -> None:
    """Write a figure; add a warning as a note."""
    if warned := write_figure(path, study.figures[name]):
        study.note(f"{path.name}: {warned}")


def _page(study: "Study", folder: Path, failed: Mapping[str, str]) -> str:
    """Return the content of report.html, made from the folder's present files."""
    kind = study.formats.tables
    last = study.rounds
    if "algorithm" in last:
        last = last.groupby("algorithm", sort=False).tail(1).dropna(axis=1, how="all")
    # Printed tables precede tables that were only stored.
    names = sorted(study.tables, key=lambda name: name not in study.titles)
    tables = [(f"{name}.{kind}", study.titles.get(name, name), study.tables[name]) for name in names]
    tables.append((f"rounds.{kind}", "Last row of each algorithm (all rows are in the file)", last))
    texts = {f"{name}.md": content for name, content in study.texts.items()}
    summary = json_value(study.summary() | {"failed": failed})
    drawn = [name for name in study.figures if any((folder / f"{name}.{each}").exists() for each in FIGURES)]
    # The figure below the answer comes first.
    captions = {name: study.caption(name) for name in sorted(drawn, key=lambda name: name != study.hero)}
    title, settings = f"netsim run {study.name}", json_value(_settings(study))
    return page(title, folder, settings, summary, tables, texts, captions, _replays(study))


def _replays(study: "Study") -> dict[str, str]:
    """Return {link text: address} for the replay of the last run; empty without a trace."""
    if not study.keeps_trace or not study.runs:
        return {}
    links = {"the map": "replay.html#view=map", "the space–time diagram": "replay.html#view=spacetime"}
    scene = list(study.runs.values())[-1].trace.scene
    if scene is not None and scene.faults:
        begin = min(each["begin"] for each in scene.faults)
        links[f"the first fault, at {begin:g} s"] = f"replay.html#t={begin:g}&view=spacetime"
    return links


def json_value(value: Any) -> Any:
    """Return a value as JSON data: numpy types as Python's, non-finite numbers as None, other types as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [json_value(item) for item in value]
    return str(value)


def _settings(study: "Study") -> dict[str, Any]:
    parameters = {
        # A parameter may be infinite, but JSON's numbers cannot.
        name: str(value) if isinstance(value, numbers.Real) and not math.isfinite(value) else json_value(value)
        for name, value in study.settings.items()
    }
    marked = {"study": study.name, "partial": study.partial is not None, "parameters": parameters}
    marked |= {"question": study.question} if study.question else {}
    # Agents on a cluster may have had another hash seed.
    seeds = {hash_seed(), *(run.hash_seed for run in study.runs.values())}
    hashing = {"hash_seed": seeds.pop() if len(seeds) == 1 else None}
    return marked | about() | environment() | hashing | study.origin


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(json_value(content), indent=2) + "\n", encoding="utf-8")


def _write_text(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8", errors="backslashreplace", newline="\n")


def trace_name(algorithm: str) -> str:
    """Return the name of an algorithm's trace file."""
    return f"trace-{_as_file_name(algorithm)}.npz"


def _as_file_name(algorithm: str) -> str:
    """Return an algorithm's name with %XX for characters that a file name cannot contain."""
    return re.sub(r'[%/\\:*?"<>|]', lambda found: f"%{ord(found[0]):02X}", algorithm)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or one_line(error) or type(error).__name__


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "a temporary directory"


def _and(failed: Mapping[str, str]) -> str:
    return "; ".join(f"{name} could not be made ({why})" for name, why in failed.items())


# --- reading ----------------------------------------------------------------------------------------------------------


def load(folder: str | Path, *, partial: bool = False, every: bool = True) -> dict[str, Any]:
    """Return a run folder's settings, summary, rounds (a DataFrame), and the names of all its ``files``.

    With ``partial``, partial folders are accepted. Without ``every``, only the files read here are compared with their
    SHA-256, because hashing a long trace takes seconds; the other files must exist.

    Raises BadInput if the folder is not a run folder, or a file is missing, changed, unreadable or malformed.
    """
    path = Path(folder)
    if (path / "sweep.json").is_file():
        raise BadInput(
            f"run folder = {str(folder)!r}: must be what `netsim run` wrote; it is a sweep, whose run folders are in "
            f"{str(path / 'points')!r} (`netsim show` shows all)"
        )
    if (path / "experiment.json").is_file():
        raise BadInput(
            f"run folder = {str(folder)!r}: must be of a study; it is of an experiment, whose runs are in its runs.csv "
            "and, without a new run, in Experiment.run(folder).tidy() (`netsim run FILE.py --metric COLUMN "
            f"--out {folder}` compares its methods)"
        )
    wanted = f"run folder = {str(folder)!r}: must be what `netsim run` wrote"
    try:
        found = _read(path, every)
    except BadInput as error:
        raise BadInput(f"{wanted}; {str(error)[:300]}") from None
    except Exception as error:
        # For a damaged file json and pandas raise many types of error, which are all treated the same.
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise BadInput(f"{wanted}; it cannot be read ({reason[:200]})") from None
    if not partial and found["summary"]["partial"]:
        raise BadInput(f"run folder = {str(folder)!r}: must be whole; {partial_text(found)}")
    return found


def partial_text(found: dict[str, Any]) -> str:
    """Return one line on the progress of a partial folder from `load`, and the reason of its end."""
    marked, rounds = found["summary"]["partial"], found["rounds"]
    rows = list(rounds.loc[rounds["algorithm"] == marked["cut"], "round"]) if "round" in rounds else []
    unit = marked["unit"] or "round"
    last = f"{unit} {rows[-1]:g}" if rows else f"any {unit}"
    where = "" if marked["cut"] is None else f", {marked['cut']} {'after' if rows else 'before'} {last}"
    return " ".join(f"it is partial{where}: {marked['why']}".split())


def _files_of(path: Path) -> list[Path]:
    """Return the files of a run folder with settings, rounds and links, in the folder's table format."""
    tables = {name: find_table(path, name) for name in ("rounds", "ledger")}
    return [path / "settings.json", *(there or path / f"{name}.csv" for name, there in tables.items())]


def is_whole(folder: Path) -> bool:
    """Return whether a run folder is complete, and all its files unchanged."""
    try:
        return _read_summary(folder, True)[0].get("partial") is None
    except Exception:
        return False


def _read_summary(path: Path, every: bool) -> tuple[dict[str, Any], list[str]]:
    """Return a run folder's summary and file names, after checking ``every`` file or only those read here."""
    needed = [each.name for each in (*_files_of(path), path / "summary.json")]
    missing = [name for name in needed if not (path / name).is_file()]
    if missing:
        raise BadInput("there is no such folder" if not path.is_dir() else f"it has no {missing[0]}")
    sums = read_sums(path)
    missing = [name for name in sums if not (path / name).is_file()]
    if missing:
        raise BadInput(f"it has no {missing[0]}")
    check_files(path, sums, dict.fromkeys([*needed, *sums] if every else needed))
    summary = _read_json(path / "summary.json")
    _must_have(
        summary,
        "summary.json",
        algorithms=dict[str, dict],  # type: ignore[type-arg]
        centralised=dict,
        trace_hash=str,
        notes=list[str],
        failed=dict[str, str],
    )
    for name, last in summary["algorithms"].items():
        _must_have(last, f"summary.json: algorithms[{name!r}]", outcome=str)
    return summary, sorted(sums)


def _read(path: Path, every: bool) -> dict[str, Any]:
    summary, names = _read_summary(path, every)
    files = _files_of(path)
    settings = _read_json(files[0])
    # The mark of a partial run is in both files, so either may lack it.
    _must_have(
        {"partial": False} | settings,
        "settings.json",
        study=str,
        parameters=dict,
        netsim=str,
        core=str,
        partial=bool,
    )
    summary["partial"] = _partial(summary, settings)
    return {"settings": settings, "summary": summary, "rounds": _read_rounds(files[1]), "files": names}


def check_unchanged(folder: Path, *names: str) -> None:
    """Raise BadInput unless the named files of a run folder are unchanged."""
    with check.naming(f"run folder = {str(folder)!r}: must be as it was written; "):
        check_files(folder, read_sums(folder), names)


def _partial(summary: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return a folder's mark of a partial run, which may be in the summary or in the settings."""
    marked = summary.get("partial")
    if marked is None:
        return {"why": "settings.json marks it", "cut": None, "unit": None} if settings.get("partial") else None
    _must_have(summary, "summary.json", partial=dict)
    optional = {name: marked.get(name) or "" for name in ("cut", "unit")}
    _must_have(marked | optional, "summary.json: partial", why=str, cut=str, unit=str)
    return {"why": marked["why"], "cut": marked.get("cut"), "unit": marked.get("unit")}


def _read_json(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise BadInput(f"{path.name} must hold an object, not {type(content).__name__}")
    return content


def _must_have(content: dict[str, Any], file: str, **kinds: Any) -> None:
    """Raise BadInput unless a file's content has these keys, with values and elements of these types."""
    for key, kind in kinds.items():
        if key not in content:
            raise BadInput(f"{file} must have {key!r}")
        outer, value = get_origin(kind) or kind, content[key]
        if not isinstance(value, outer):
            raise BadInput(f"{file}: {key!r} must be {outer.__name__}, not {type(value).__name__}")
        if within := get_args(kind):
            for name, each in value.items() if outer is dict else enumerate(value):
                if not isinstance(each, within[-1]) or isinstance(each, bool):
                    raise BadInput(f"{file}: {key}[{name!r}] must not be {type(each).__name__}")


def read_part(folder: Path, name: str, algorithm: str) -> "pd.DataFrame | None":
    """Return an algorithm's rows of a table in a complete run folder, with names as text; None if there is no table."""
    path = find_table(folder, name)
    if path is None:
        return None
    check_unchanged(folder, path.name)
    try:
        table = read_table(path, text=["algorithm", "sender", "receiver", "kind", "agent"])
        table = table.astype({each: str for each in ("algorithm", "agent") if each in table.columns})
        return table[table["algorithm"] == algorithm]
    except Exception as error:
        raise BadInput(f"run folder = {str(folder)!r}: {path.name} cannot be read ({one_line(error)})") from None


def _read_rounds(path: Path) -> "pd.DataFrame":
    import pandas as pd

    rounds = read_table(path, text=["algorithm"])
    if "algorithm" not in rounds.columns:
        raise BadInput(f"{path.name} must have a column 'algorithm'")
    for name in rounds.columns:
        if name != "algorithm" and not pd.api.types.is_numeric_dtype(rounds[name]) and not rounds[name].isna().all():
            raise BadInput(f"{path.name}: column {name!r} must hold numbers")
    return rounds


def check_text(name: str, value: Any, most: int = 200) -> str:
    """Return ``value`` if it is printable, non-empty text of at most ``most`` bytes of UTF-8."""
    if not isinstance(value, str) or not value.isprintable() or not value.strip() or len(value.encode()) > most:
        raise check.refuse(name, value, f"printable text of at most {most} bytes")
    return str(value)


def check_algorithm(value: Any) -> str:
    """Return ``value`` if it can be an algorithm's name, which is part of a trace file's name."""
    check_text("algorithm", value)
    check_text("algorithm", _as_file_name(value))
    return str(value)


def check_file_name(name: str, value: Any) -> str:
    """Return ``value`` if it can be a file name without suffix, and is not reserved in run folders."""
    check_text(name, value, 100)
    if value.startswith(".") or set(value) & set('/\\:*?"<>|') or value.casefold() in OF_EVERY_RUN:
        raise check.refuse(name, value, f"a file's name without its ending, and none of {', '.join(OF_EVERY_RUN)}")
    return str(value)
