"""Replays and guesses on the site: generates scripts in runs/, and the HTML elements of pages.

All runs share the script ``runs/page.js``, and each run's data is ``runs/NAME.js``. A lesson's runs are read from its
notebook's outputs, where docs/lessons/_execute.py stores the arguments of `netsim.replay.html.html`. For any other page
its examples are executed: they call ``run.replay("NAME.html")`` if the page has ``<netsim-replay run="NAME">``.
"""

import base64
import contextlib
import gzip
import html
import io
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import numpy as np

from netsim.replay.html import as_json, packed_parts, page_of

RUN, GUESS = "application/vnd.netsim.replay+json", "application/vnd.netsim.guess+json"
"""MIME types of a notebook's outputs: a run to replay, and a question with a guess."""

# Placeholders for the two variable parts of the replay page.
_MARKS = {"meta": {"title": "Replay", "part": "meta"}, "packed": "part: packed"}
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ELEMENT = re.compile(r'<netsim-replay run="(\w+)"')


def page_script() -> str:
    """Return the script that holds the replay page as text fragments, with the names of the parts between them."""
    marks = {as_json(mark): name for name, mark in _MARKS.items()}
    pieces = re.split("|".join(f"({re.escape(mark)})" for mark in marks), page_of(_MARKS["meta"], _MARKS["packed"]))
    pieces = [marks.get(piece, piece) for piece in pieces if piece is not None]
    return f"netsimReplays.page = {as_json(pieces)};\n"


def page_parts(meta: dict[str, Any], columns: Any) -> dict[str, Any]:
    """Return both variable parts of the replay page for a run shown in a frame."""
    return dict(zip(("meta", "packed"), packed_parts(meta | {"framed": True}, columns), strict=True))


def unpacked(packed: dict[str, Any]) -> dict[str, Any]:
    """Return the columns packed by `netsim.replay.packing.pack`."""
    data, at = gzip.decompress(base64.b64decode(packed["data"])), 0
    bits: dict[str, Any] = {}
    columns = {}
    for each in packed["columns"]:
        name, length, width = each["name"], each["length"], int(each["type"][1])
        planes = np.frombuffer(data, np.uint8, length * width, at).reshape(width, length)
        found = np.ascontiguousarray(planes.T).view(f"<u{width}").ravel()
        if each["less"]:
            found = (found >> 1) ^ (~(found & 1) + 1).astype(found.dtype)
            found = np.cumsum(found, dtype=found.dtype) if each["less"] == "previous" else found + bits[each["less"]]
        at += length * width
        bits[name], columns[name] = found, found.view(f"<{each['type']}")
    return columns


def run_script(name: str, run: dict[str, Any]) -> str:
    """Return the script that holds one run's data."""
    return f"netsimReplays.add({as_json(name)}, {as_json(run)});\n"


def runs_of_page(text: str, asked: set[str]) -> dict[str, dict[str, Any]]:
    """Execute a page's examples until they have made all requested replays; return the replays by name."""
    import matplotlib

    matplotlib.use("Agg")
    found: dict[str, dict[str, Any]] = {}

    def keep(path: Path, meta: Any, columns: Any) -> Path:
        found[Path(path).stem] = page_parts(meta, columns)
        return Path(path)

    namespace: dict[str, Any] = {"__name__": "page"}
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
        mock.patch("netsim.replay.render.write", keep),
    ):
        for block in _BLOCK.findall(text):
            if asked <= set(found):
                break
            exec(compile(block, "page", "exec"), namespace)
    return {name: found[name] for name in asked}


def runs_of_notebook(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and the data of the runs that a notebook shows."""
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", ()):
            if RUN in output.get("data", {}):
                run = json.loads(output.data[RUN])
                yield run["name"], page_parts(run["meta"], unpacked(run["columns"]))


def alive(notebook: Any) -> Any:
    """Return a notebook's cells with HTML elements inserted for its runs and guesses.

    Cells with the metadata ``{"reveal": "q1"}`` are wrapped in an element that opens when the guess q1 is answered.
    """
    cells: list[Any] = []
    before = None
    for cell in [*notebook.cells, None]:
        reveal = cell.metadata.get("reveal") if cell else None
        if reveal != before and before:
            cells.append(nbformat.v4.new_markdown_cell("</div>"))
        if reveal != before and reveal:
            opened = f'<div class="reveal" data-guess="{html.escape(reveal)}" markdown="1">'
            cells.append(nbformat.v4.new_markdown_cell(opened))
        before = reveal
        if cell is None:
            break
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if RUN in data:
                output.data = {"text/markdown": replay_element(json.loads(data[RUN]))}
            elif GUESS in data:
                # The cell's code contains the answer, so the guess replaces the cell.
                cell = nbformat.v4.new_markdown_cell(guess_element(data[GUESS]))
        cells.append(cell)
    notebook.cells = cells
    return notebook


def replay_element(run: dict[str, Any]) -> str:
    """Return the HTML element that plays a lesson's run."""
    title = html.escape(run["meta"]["title"])
    return f'<netsim-replay run="{run["name"]}" label="{title}"></netsim-replay>\n'


def guess_element(guess: dict[str, Any]) -> str:
    """Return the HTML element of a guess; its script checks the answer."""
    options = "".join(
        f"<button type='button'{' data-right' * (number == guess['right'])}>{html.escape(option)}</button>"
        for number, option in enumerate(guess["options"])
    )
    question, name = html.escape(guess["question"]), html.escape(guess["name"])
    return f'<div class="guess" id="{name}"><p>{question}</p><div role="group">{options}</div></div>'


# --- what mkdocs asks of a hook ---------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    """Add the scripts of all runs to the site's files."""
    from mkdocs.structure.files import File

    scripts = {"page": page_script()}
    docs = Path(config.docs_dir)
    for path in sorted(docs.glob("lessons/*.ipynb")):
        scripts |= {name: run_script(name, run) for name, run in runs_of_notebook(path)}
    for path in sorted(docs.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        made = {name for name in _ELEMENT.findall(text) if f'.replay("{name}.html"' in text}
        scripts |= {name: run_script(name, run) for name, run in (runs_of_page(text, made) if made else {}).items()}
    for name, text in scripts.items():
        files.append(File.generated(config, f"runs/{name}.js", content=text))
    return files
