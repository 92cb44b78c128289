"""The lessons as they are committed: executed, with their outputs, and without what differs from run to run.

``python docs/lessons/_execute.py`` executes all of them, ``python docs/lessons/_execute.py 01_flooding 03_averaging``
those named, and writes them anew, each with its answers (answers/01_flooding.ipynb). Answers begin where their lesson
ends: their first cell runs it. The notebook of an experiment, ``notebook``, is one of them, without exercises. Takes
nbclient and ipykernel (``pip install -e '.[dev]'``).
"""

import base64
import gzip
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from netsim.util.files import write_whole

LESSONS = Path(__file__).parent
EXAMPLES = LESSONS.parent / "experiments"
SECONDS = 300
"""How long a cell may take."""

WIDGET = "(a widget: it is shown where the notebook runs)"
"""What stands in place of a widget, which has an address."""

RUN, GUESS = "application/vnd.netsim.replay+json", "application/vnd.netsim.guess+json"
"""What is kept beside the text of a widget, the run that it shows, and of a question; docs/_replays.py reads both."""

_SHOWN = ("image/png", "text/plain", RUN, GUESS)
# Before a lesson's cells: a replay's output is its run, as one line of JSON, and needs no kernel. What a page derives
# from the run is derived when the site is built; the versions would be those of whoever executed it.
_PRELUDE = """
import itertools as _itertools
import numpy as _np
from netsim.replay import html as _html
from netsim.replay.notebook import Replay as _Replay
from netsim.replay.packing import pack as _pack

_numbers = _itertools.count(1)


def _keep(replay, meta, columns, height):
    typed = {{name: _np.asarray(columns[name]).astype(kind) for name, kind in _html.COLUMNS.items() if name in columns}}
    told = {{name: value for name, value in meta.items() if name != "film"}} | {{"versions": {{}}}}
    replay.kept = _html.as_json({{"name": f"{stem}-{{next(_numbers)}}", "meta": told, "columns": _pack(typed)}})


_Replay.__init__ = _keep
_Replay._repr_mimebundle_ = lambda replay, **_: {{{run!r}: replay.kept}}
"""
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebooks(path: Path) -> list[Path]:
    """Return the files of a lesson: the lesson, and its answers if it has any."""
    return [each for each in (path, path.parent / "answers" / path.name) if each.is_file()]


def run_cell(path: Path) -> str:
    """Return the first code cell of a lesson's answers, which runs the lesson."""
    return f"%%capture\n%run ../{path.name}"


def executed(path: Path) -> list[Any]:
    """Return the notebooks of a lesson after one execution in a folder of its own, normalised.

    Raises
    ------
    ValueError
        If the answers' first code cell is not `run_cell`.
    CellExecutionError
        If a cell raises.
    """
    lesson, *answers = found = [nbformat.read(each, as_version=4) for each in notebooks(path)]
    cells = list(lesson.cells)
    for each in answers:
        # The lesson has just run in the same kernel.
        first, *rest = [cell for cell in each.cells if cell.cell_type == "code"]
        if first.source != run_cell(path):
            raise ValueError(f"answers/{path.name}: the first code cell must be {run_cell(path)!r}")
        cells += rest
    # Lesson and answers are one notebook here, in which identifiers must differ.
    for number, cell in enumerate(cells):
        cell.id = f"run-{number}"
    prelude = nbformat.v4.new_code_cell(_PRELUDE.format(run=RUN, stem=path.stem))
    execute(nbformat.v4.new_notebook(cells=[prelude, *cells]))
    return [normalised(each) for each in found]


def execute(notebook: Any) -> None:
    """Execute a notebook in a folder of its own; raises CellExecutionError if a cell raises."""
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=resources).execute()


def normalised(notebook: Any) -> Any:
    """Take out of a notebook what is not the lesson: times, counts, identifiers, forms that nobody sees."""
    notebook.metadata = nbformat.from_dict(_METADATA)
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        reveal = {name: value for name, value in cell.metadata.items() if name == "reveal"}
        cell.metadata, cell.id = nbformat.from_dict(reveal), f"cell-{number}"
        cell.pop("attachments", None)
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = _joined([_normal(output) for output in cell.outputs])
    return notebook


def texts(notebook: Any) -> list[list[str]]:
    """Return what each code cell shows as text: for an image what stands in its place."""
    return [[_text(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def _normal(output: Any) -> Any:
    if "execution_count" in output:
        output.execution_count = None
    if "data" in output:
        output.metadata = nbformat.from_dict({})
        if RUN in output.data:
            output.data["text/plain"] = WIDGET
        output.data = nbformat.from_dict({name: output.data[name] for name in _SHOWN if name in output.data})
    return output


def _joined(outputs: list[Any]) -> list[Any]:
    """Return the outputs with what a stream wrote in pieces in one: where it is cut is a matter of time."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.output_type == "stream" and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _rounded(value: Any) -> Any:
    """Return what JSON holds with nine digits of each number, twelve decimals: the last depend on the processor."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{round(value, 12):.9g}") if isinstance(value, float) else value


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return f"{output.name}: {output.text}"
    if output.output_type == "error":
        return f"error: {output.ename}: {output.evalue}"
    text = str(output.data.get("text/plain", ""))
    if RUN in output.data:
        run = json.loads(output.data[RUN])
        # What is packed is the same; how it is packed is a matter of zlib.
        events = hashlib.sha256(gzip.decompress(base64.b64decode(run["columns"]["data"]))).hexdigest()
        shown = _rounded([run["name"], run["meta"], run["columns"]["columns"]])
        text += f"\n{json.dumps(shown, sort_keys=True)}\n{events}"
    return text + json.dumps(output.data.get(GUESS, ""), sort_keys=True)


def named(names: list[str]) -> list[Path]:
    """Return the lessons and examples of these names, or all; raises SystemExit for a name that is none."""
    every = {path.stem: path for folder in (LESSONS, EXAMPLES) for path in sorted(folder.glob("*.ipynb"))}
    for name in names:
        if Path(name).stem not in every:
            raise SystemExit(f"{Path(name).stem}: must be one of {', '.join(every)}")
    return [every[Path(name).stem] for name in names] or list(every.values())


def main() -> int:
    """Execute the lessons that are named, or all, and write them."""
    for path in named(sys.argv[1:]):
        for file, notebook in zip(notebooks(path), executed(path), strict=True):
            text = nbformat.writes(notebook, version=4) + "\n"
            with write_whole(file) as whole:
                whole.write(text.encode())
            print(f"{file.relative_to(LESSONS.parent)}: written, {len(text) / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
