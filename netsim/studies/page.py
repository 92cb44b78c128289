"""A run folder as one page, report.html: question, answer and one figure are shown, the rest is folded."""

import base64
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import shorten
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.studies import columns
from netsim.studies.formats import FIGURES, NIGHT
from netsim.studies.outcome import error_of
from netsim.studies.terminal import text

if TYPE_CHECKING:
    import pandas as pd

NAME = "report.html"
"""The page's name in its folder."""

_ROWS, _WORDS = 60, 120
"""Rows of a table that the page shows, and characters of a result in the line that opens a part."""

# Columns of intervals' ends and p values, which are not results themselves.
_END = re.compile(r"(^|_)(low|high|p|holm)$")

_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}

# The page loads nothing: styles and figures are embedded, and there is no script.
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --line: #ccc; --quiet: #595959; --code: #f2f2f2 }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8e8e8; --paper: #161616; --line: #484848; --quiet: #ababab; --code: #262626 }}
}}
body {{ margin: 0 auto; max-width: 1200px; padding: 1rem 1.2rem 3rem; color: var(--ink); background: var(--paper);
  font: 17px/1.5 system-ui, sans-serif }}
h1 {{ font-size: clamp(1.3rem, 1.5vw + .6rem, 1.9rem); line-height: 1.25; margin: .6rem 0; text-wrap: balance }}
h1:has(+ .answer) {{ font-weight: 450; color: var(--quiet) }}
.answer {{ font-size: clamp(1.35rem, 1.8vw + .6rem, 2.2rem); line-height: 1.25; font-weight: 600;
  margin: 0 0 1rem; text-wrap: pretty }}
.answer small {{ display: block; margin-top: .4rem; font-size: 1.05rem; font-weight: 450; color: var(--quiet) }}
a {{ color: inherit }}
h2 {{ font-size: 1.1rem; font-weight: 600 }}
details {{ border-top: 1px solid var(--line) }}
details:last-of-type {{ border-bottom: 1px solid var(--line) }}
summary {{ display: flex; gap: .2rem 1rem; align-items: baseline; padding: .7rem 0; cursor: pointer; list-style: none }}
summary::before {{ content: "▸"; color: var(--quiet) }}
details[open] > summary::before {{ content: "▾" }}
summary h2 {{ flex: 1 0; min-width: 50%; margin: 0 }}
summary small {{ overflow: hidden; text-overflow: ellipsis; white-space: nowrap; color: var(--quiet) }}
pre, code {{ background: var(--code); font: 14px/1.4 ui-monospace, monospace }}
pre {{ padding: .6rem; white-space: pre-wrap; overflow-wrap: anywhere }}
figure {{ margin: 1rem 0 }}
img {{ width: 100%; height: auto; background: #fff }}
@media (prefers-color-scheme: dark) {{ img[src^="data:image/png"] {{ {night} }} img {{ background: none }} }}
figcaption, .quiet {{ color: var(--quiet) }}
.wide {{ overflow-x: auto }}
@media (max-width: 760px) {{
  figure img {{ width: 760px }}
  summary {{ flex-wrap: wrap }}
  summary h2 {{ min-width: 80% }}
  summary small {{ flex-basis: 100%; padding-left: 1.6rem; white-space: normal }}
}}
@media print {{ details::details-content {{ content-visibility: visible; height: auto }} }}
table {{ border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums }}
th, td {{ border-bottom: 1px solid var(--line); padding: .2rem .5rem; text-align: right; white-space: nowrap }}
th {{ white-space: normal; vertical-align: bottom }}
table.names {{ margin: 1rem 0 }}
table.names td, table.names th {{ text-align: left; white-space: normal; overflow-wrap: anywhere }}
table.names th {{ min-width: 8.5rem }}
.warning {{ border-left: 4px solid #b35900; padding: .3rem .8rem }}
</style>
</head>
<body>
<main>
"""


def page(
    title: str,
    folder: Path,
    settings: Mapping[str, Any],
    summary: Mapping[str, Any],
    tables: "Iterable[tuple[str, str, pd.DataFrame]]",
    texts: Mapping[str, str],
    captions: Mapping[str, str],
    replays: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the page of a run folder, or of an experiment; the same folder gives the same page.

    The figures are those in ``captions``, keyed by their names in the folder; the first is shown below the answer. A
    PNG is preferred; a PDF is only named, because a page cannot show it. ``settings`` and ``summary`` are the files'
    contents. ``tables`` are (file name, heading, table); a table is followed by the note in its ``attrs["note"]``.
    Without an answer the first table takes the answer's place. A table whose file name is "" is shown with all rows.
    ``texts`` are keyed by file name. ``replays`` maps link texts to addresses of the replay's page.
    """
    parts = [_HEAD.format(title=_safe(title), night=NIGHT), f"<h1>{_safe(settings.get('question') or title)}</h1>"]
    shown = list(tables)
    if answer := summary.get("answer"):
        parts.append(f'<p class="answer">{_safe(answer)} <small>{_safe(summary.get("condition", ""))}</small></p>')
    if summary.get("partial"):
        parts.append(f'<p class="warning">Partial: {_safe(summary["partial"]["why"])}</p>')
    for name, why in summary.get("failed", {}).items():
        parts.append(f'<p class="warning">{_safe(name)} could not be made: {_safe(why)}</p>')
    if shown and not answer:
        parts += [f"<h2>{_safe(shown[0][1])}</h2>", *_table(*shown.pop(0))]
    first, *figures = captions or [""]
    parts += _figure(folder, first, captions[first]) if first else ()
    for file, heading, table in shown:
        parts += _folded(heading, _range(table, settings), _table(file, heading, table))
    for name in figures:
        parts += _folded(name.replace("_", " ").capitalize(), captions[name], _figure(folder, name, captions[name]))
    if notes := summary["notes"]:
        parts += _folded("Notes", notes[0], ["<ul>", *(f"<li>{_safe(note)}</li>" for note in notes), "</ul>"])
    if "parts" in settings:
        parts += _folded("What was compared", ", ".join(settings["parts"]), _pairs(settings["parts"]))
    for name, content in texts.items():
        parts += _folded(name, content.partition("\n")[0], [f"<pre>{_safe(content)}</pre>"])
    parts += _folded("How it was made, and how to make it again", title, _made(settings, summary, replays))
    return "\n".join([*parts, "</main>", "</body>", "</html>"]) + "\n"


def _folded(heading: str, result: str, inside: Iterable[str]) -> Iterator[str]:
    """Yield a folded part of the page, with its main result beside the heading."""
    yield f"<details><summary><h2>{_safe(heading)}</h2> <small>{_safe(shorten(result, _WORDS))}</small></summary>"
    yield from inside
    yield "</details>"


def _range(table: "pd.DataFrame", settings: Mapping[str, Any]) -> str:
    """Return as text the range of a table's error, or of the first fraction that varies; else its number of rows."""
    given = {*settings["parameters"], *table.attrs.get("given", ())}
    measures = {str(name): values for name, values in table.items() if values.dtype.kind == "f" and name not in given}
    for name in filter(None, [error_of(measures), *measures]):
        values = measures[name][np.isfinite(measures[name])]
        if values.nunique() > 1 and not columns.counts(name) and not _END.search(name):
            return f"{columns.label(name)}: {text(values.min())} to {text(values.max())}"
    return f"{len(table):,} row{'s' * (len(table) != 1)}"


def _made(settings: Mapping[str, Any], summary: Mapping[str, Any], replays: Mapping[str, str]) -> Iterator[str]:
    """Yield the command that repeats the run, the links to its replay, its settings, and the versions."""
    if "command" in settings:
        yield f"<pre>{_safe(settings['command'])}</pre>"
    if replays:
        links = ", ".join(f'<a href="{_safe(place)}">{_safe(words)}</a>' for words, place in replays.items())
        yield f"<p>Once <code>netsim replay</code> has written the page of this folder, replay.html: {links}.</p>"
    yield from _pairs(settings["parameters"])
    shown = ("parameters", "parts", "study", "command", "question")
    known = {name: value for name, value in settings.items() if name not in shown}
    yield from _pairs(known | {name: summary[name] for name in ("trace_hash",) if name in summary})


def _safe(value: Any) -> str:
    """Return a value as text for the page, with HTML escaped."""
    return html.escape(str(value).encode(errors="backslashreplace").decode())


def _figure(folder: Path, name: str, caption: str) -> Iterator[str]:
    file = next(path for kind in FIGURES if (path := folder / f"{name}.{kind}").exists())
    caption = _safe(caption)
    if file.suffix not in _TYPES:
        yield f'<p class="quiet">{caption} The figure is in {_safe(file.name)}, which a page cannot show.</p>'
        return
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    scroll = f'<div class="wide" role="region" tabindex="0" aria-label="{_safe(name)}">'
    picture = f'{scroll}<img alt="{caption}" src="data:{_TYPES[file.suffix]};base64,{data}"></div>'
    yield f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _table(file: str, heading: str, table: "pd.DataFrame") -> Iterator[str]:
    # tabindex makes the table focusable, so that the keyboard can scroll it.
    yield f'<div class="wide" role="region" tabindex="0" aria-label="{_safe(heading)}"><table>'
    # Break a long name after an underscore, so that the table is no wider than its numbers.
    heads = (_safe(name).replace("_", "_<wbr>") for name in table.columns)
    yield f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"
    shown = table.head(_ROWS) if file else table
    for row in shown.itertuples(index=False, name=None):
        yield f"<tr>{''.join(f'<td>{_safe(text(value))}</td>' for value in row)}</tr>"
    yield "</table></div>"
    left = len(table) - len(shown)
    more = f"{left:,} of {len(table):,} rows are left out here; all are in {file}." if left else f"Also in {file}."
    if below := " ".join(filter(None, (table.attrs.get("note"), more if file else ""))):
        yield f'<p class="quiet">{_safe(below)}</p>'


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    yield '<table class="names">'
    for name, value in values.items():
        yield f"<tr><th>{_safe(name)}</th><td>{_safe(_listed(value))}</td></tr>"
    yield "</table>"


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_listed(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_listed, value))
    return "–" if value is None else str(value)
