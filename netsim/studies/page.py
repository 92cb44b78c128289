"""A run folder as one page: report.html, to read and to send: what was asked, figures, tables, notes, and the rest."""

import base64
import html
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from netsim.studies.formats import NIGHT
from netsim.studies.terminal import text

if TYPE_CHECKING:
    import pandas as pd

NAME = "report.html"
"""The page's name in its folder."""

_ROWS = 60
"""Rows of a table that the page shows."""

_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}

# The page loads nothing: styles and figures are in it, and there is no script.
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
  font: 16px/1.45 system-ui, sans-serif }}
h1 {{ font-size: 1.6rem; line-height: 1.25; max-width: 60rem; margin: .3rem 0 .6rem }}
.answer {{ font-size: 1.15rem; max-width: 60rem; margin-top: 0 }}
a {{ color: inherit }}
summary {{ margin-top: 2rem; font-size: 1.2rem; font-weight: 600; cursor: pointer }}
h2 {{ font-size: 1.2rem; margin-top: 2rem }}
pre, code {{ background: var(--code); font: 14px/1.4 ui-monospace, monospace }}
pre {{ padding: .6rem; white-space: pre-wrap; overflow-wrap: anywhere }}
figure {{ margin: 1rem 0 }}
img {{ max-width: 100%; height: auto; background: #fff }}
@media (prefers-color-scheme: dark) {{ img[src^="data:image/png"] {{ {night} }} img {{ background: none }} }}
figcaption, .quiet {{ color: var(--quiet) }}
.wide {{ overflow-x: auto }}
@media (max-width: 760px) {{ figure img {{ max-width: none; width: 760px }} }}
table {{ border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums }}
th, td {{ border-bottom: 1px solid var(--line); padding: .2rem .5rem; text-align: right; white-space: nowrap }}
th {{ white-space: normal; vertical-align: bottom }}
table.names td, table.names th {{ text-align: left; white-space: normal; overflow-wrap: anywhere }}
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

    Figures are those in the folder: a PNG is preferred, a PDF is named only. ``settings`` and ``summary`` are those of
    the files; ``tables`` have the name of their file, a heading, and the table, of which a note in ``attrs["note"]``
    follows. A table without a file is shown with all rows. ``texts`` go by their files' names, ``captions`` by the
    figures'. ``replays`` has the addresses of the replay's page by the words of their links.
    """
    parts = [_HEAD.format(title=_safe(title), night=NIGHT)]
    if settings.get("question"):
        parts += [f'<p class="quiet">{_safe(title)}</p>', f"<h1>{_safe(settings['question'])}</h1>"]
    else:
        parts.append(f"<h1>{_safe(title)}</h1>")
    if summary.get("answer"):
        parts.append(f'<p class="answer">{_safe(summary["answer"])}</p>')
    if summary.get("partial"):
        parts.append(f'<p class="warning">Partial: {_safe(summary["partial"]["why"])}</p>')
    parts += _figures(folder, captions)
    for name, why in summary.get("failed", {}).items():
        parts.append(f'<p class="warning">{_safe(name)} could not be made: {_safe(why)}</p>')
    for each in tables:
        parts += _table(*each)
    if summary["notes"]:
        parts += ["<h2>Notes</h2>", "<ul>", *(f"<li>{_safe(note)}</li>" for note in summary["notes"]), "</ul>"]
    parts += _pairs("What was compared", settings["parts"]) if "parts" in settings else ()
    parts += _again(settings, replays)
    parts.append("<details><summary>Settings, and how it was made</summary>")
    for name, content in texts.items():
        parts += [f"<h2>{_safe(name)}</h2>", f"<pre>{_safe(content)}</pre>"]
    parts += _pairs("Settings", settings["parameters"])
    shown = ("parameters", "parts", "scenario", "command", "question")
    known = {name: value for name, value in settings.items() if name not in shown}
    known |= {name: summary[name] for name in ("trace_hash",) if name in summary}
    parts += _pairs("How it was made", known)
    return "\n".join([*parts, "</details>", "</main>", "</body>", "</html>"]) + "\n"


def _again(settings: Mapping[str, Any], replays: Mapping[str, str]) -> Iterator[str]:
    """Yield the command that repeats the run, and the links to its replay."""
    if "command" in settings or replays:
        yield f"<h2>{'Watch it, and run' if replays else 'Run'} it again</h2>"
    if replays:
        links = ", ".join(f'<a href="{_safe(place)}">{_safe(words)}</a>' for words, place in replays.items())
        yield f"<p>Once <code>netsim replay</code> has written the page of this folder, replay.html: {links}.</p>"
    if "command" in settings:
        yield f"<pre>{_safe(settings['command'])}</pre>"


def _safe(value: Any) -> str:
    """Return a value as text of the page, in which nothing is a tag."""
    return html.escape(str(value).encode(errors="backslashreplace").decode())


def _figures(folder: Path, captions: Mapping[str, str]) -> Iterator[str]:
    files = sorted(folder.glob("*.png")) + sorted(folder.glob("*.svg")) + sorted(folder.glob("*.pdf"))
    seen = set()
    for file in files:
        if file.stem in seen:
            continue
        seen.add(file.stem)
        caption = _safe(captions.get(file.stem, file.stem))
        if file.suffix not in _TYPES:
            yield f'<p class="quiet">{caption} The figure is in {_safe(file.name)}, which a page cannot show.</p>'
            continue
        data = base64.b64encode(file.read_bytes()).decode("ascii")
        source = f"data:{_TYPES[file.suffix]};base64,{data}"
        scroll = f'<div class="wide" role="region" tabindex="0" aria-label="{_safe(file.stem)}">'
        picture = f'{scroll}<img alt="{caption}" src="{source}"></div>'
        yield f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _table(file: str, heading: str, table: "pd.DataFrame") -> Iterator[str]:
    yield f"<h2>{_safe(heading)}</h2>"
    # Who has no pointer scrolls it by the keyboard.
    yield f'<div class="wide" role="region" tabindex="0" aria-label="{_safe(heading)}"><table>'
    # A long name is broken after an underscore, so that the table is no wider than its numbers.
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


def _pairs(heading: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h2>{_safe(heading)}</h2>\n<table class="names">'
    for name, value in values.items():
        yield f"<tr><th>{_safe(name)}</th><td>{_safe(_listed(value))}</td></tr>"
    yield "</table>"


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_listed(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_listed, value))
    return "–" if value is None else str(value)
