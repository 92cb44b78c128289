"""The page of a run: one self-contained HTML file that opens without a server or a network."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.draw import resolved
from netsim.errors import BadInput
from netsim.replay.film import film_of
from netsim.replay.packing import pack
from netsim.replay.run_history import RunHistory
from netsim.util import check

COLUMNS: dict[str, type] = {
    "start": np.float64,
    "depart": np.float64,
    "end": np.float64,
    "sender": np.int32,
    "receiver": np.int32,
    "kind": np.int16,
    "cause": np.int16,
    "round": np.int32,
    "bits": np.int64,
    "reply": np.uint8,
    "number": np.int64,
    "label": np.int32,
}
"""The columns of frames that a page needs, and their types."""

_INDEX_OF = {"sender": "agents", "receiver": "agents", "kind": "kinds", "cause": "causes"}

# The page's scripts; concatenated in this order, they form one program.
_SCRIPTS = (
    *("unpack", "events", "look", "run", "states", "drawn", "stage", "causality", "sheet", "spacetime", "strip"),
    *("curves", "inspector", "panels", "player", "live", "framed", "page"),
)

# The number of bits to which a state's mantissa is rounded: seven decimal digits, of which a page shows five.
_STATE_BITS = 24


def html(meta: Mapping[str, Any], columns: Mapping[str, NDArray[Any]], *, asks: bool = False) -> str:
    """Return the page that shows a run.

    Parameters
    ----------
    meta : mapping
        ``title``, ``command``, ``versions``, ``agents`` (names), ``positions`` (x, y of each agent), ``has_positions``
        (False: the positions are a layout), ``medium``, ``draw`` (how states are drawn: `netsim.draw.resolved`),
        ``film`` (pace and moments: `netsim.replay.film`; computed here if missing),
        ``paths`` ({number of a moving agent, as text: list of (s, x, y)}),
        ``links`` (pairs of indices), ``round_period`` and ``ended_at`` (s), ``kinds``, ``causes`` (the first is
        "delivered"), ``counts`` (by cause, from the ledger), ``total``, ``shown`` and ``omitted``, ``states`` (changes
        in order of time: ``times`` in s, ``agents`` by number, ``sent``, and ``values`` by name, NaN for none),
        ``rounds`` (the last that opened; 0: none did), ``curves`` (``x`` in s, ``columns``), ``notes``. Of a run that
        goes on (`netsim.live`) also ``live``: its ``number``, ``pace`` and ``length``. With ``framed`` (True) it obeys
        the page that holds it in a frame, and reports to it.
    columns : mapping of arrays, shape (events,)
        Those of `COLUMNS`, sorted by ``start``: ``start``, ``depart`` (the first bit leaves) and ``end`` in seconds;
        ``sender`` and ``receiver``, ``kind`` and ``cause`` as indices; ``round``, ``bits``, ``reply`` and ``number``,
        the sender's transmission.
    asks : bool
        Whether the page may request more data from its server; otherwise it can load nothing.

    Raises
    ------
    BadInput
        If a column is missing, of another length, or points outside of ``meta``; or if they are not sorted.
    """
    return page_of(*packed_parts(meta, columns), asks=asks)


def packed_parts(
    meta: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, object]]:
    """Return the page's metadata, and all columns packed; arguments and errors are the same as for `html`."""
    page, events = page_parts(meta, columns)
    return page, pack(events)


def page_parts(
    meta: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the page's metadata, and all columns by the names that the page uses; for the arguments see `html`."""
    meta = meta if "draw" in meta else {**meta, "draw": resolved(meta["states"], meta["agents"], {})}
    events = _checked(meta, columns)
    meta = meta if "film" in meta else {**meta, "film": film_of(RunHistory(meta, events))}
    states, curves = meta["states"], meta["curves"]
    for name, dtype in (("times", np.float64), ("agents", np.int32), ("sent", np.int64)):
        events[f"state {name}"] = np.asarray(states[name], dtype=dtype)
    for index, values in enumerate(states["values"].values()):
        has_words = isinstance(values, Mapping)
        numbers = np.asarray(values["codes"] if has_words else values, dtype=np.float64)
        events[f"state {index}"] = _shortened(np.where(has_words & (numbers < 0), np.nan, numbers))
    events["curves x"] = np.asarray(curves.get("x", ()), dtype=np.float64)
    for index, values in enumerate(curves.get("columns", {}).values()):
        events[f"curve {index}"] = np.asarray(values, dtype=np.float64)
    words = {name: values["words"] for name, values in states["values"].items() if isinstance(values, Mapping)}
    names = {"states": list(states["values"]), "words": words, "curves": list(curves.get("columns", {}))}
    return {**meta, **names}, events


def page_of(meta: Mapping[str, Any], packed: object, *, asks: bool = False, style: str = "", script: str = "") -> str:
    """Return the page for the result of `packed_parts`; ``style`` and ``script`` are appended to the page's own.

    If ``packed`` is None, the page starts nothing by itself: ``script`` must call ``start`` when a run is available.
    """
    # Escape lone surrogates, which cannot be encoded in UTF-8.
    title = str(meta["title"]).encode(errors="backslashreplace").decode()
    parts = {
        "connect": "connect-src 'self'; " if asks else "",
        "title": title.replace("&", "&amp;").replace("<", "&lt;"),
        "style": _file("uplot/uPlot.min.css") + _themes(tokens()["themes"]) + _file("page.css") + style,
        "meta": as_json(meta),
        "packed": as_json(packed),
        "uplot": _file("uplot/uPlot.iife.min.js"),
        "script": program_of(_SCRIPTS) + "\n" + script,
    }
    # Fill in all placeholders at once, because a part that is filled in may contain text like a placeholder.
    return re.sub(r"{{(\w+)}}", lambda found: parts[found[1]], _file("page.html"))


def _checked(meta: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Validate the columns of frames, and return them with the types of `COLUMNS`; raises BadInput."""
    events: dict[str, NDArray[Any]] = {}
    columns = {"label": np.full(np.shape(columns.get("start", ())), -1, dtype=np.int32), **columns}
    for name, dtype in COLUMNS.items():
        if name not in columns:
            raise check.refuse("columns", sorted(columns), f"with a column {name!r}")
        column = np.asarray(columns[name])
        if column.shape != np.shape(columns["start"]) or column.ndim != 1:
            raise check.refuse(f"columns[{name!r}]", column.shape, f"of shape {np.shape(columns['start'])}, as start")
        if name in _INDEX_OF and len(column):
            for index in (column.min(), column.max()):
                check.integer(f"columns[{name!r}]", index.item(), low=0, high=len(meta[_INDEX_OF[name]]) - 1)
        events[name] = column.astype(dtype, casting="same_kind")
    start, depart, end = (check.finite_array(f"columns[{name!r}]", events[name]) for name in ("start", "depart", "end"))
    if np.any(np.diff(start) < 0) or np.any(start < 0) or np.any(depart < start) or np.any(end < depart):
        raise BadInput("columns: must be sorted by start >= 0, with start <= depart <= end")
    # Adding 0.0 turns -0.0 into 0.0, because columns are packed as integers, and the bits of -0.0 are a huge one.
    return events | {"start": start + 0.0, "depart": depart + 0.0, "end": end + 0.0}


def tokens() -> dict[str, Any]:
    """Return the colours, dashes and shapes of pages and pictures, from page/tokens.json."""
    return dict(json.loads(_file("tokens.json")))


def _themes(themes: Mapping[str, Mapping[str, str]]) -> str:
    """Return CSS with the colours of both themes: the theme chosen on the page applies, or else the system's."""
    light, dark = (
        f"color-scheme: {name}; " + " ".join(f"--{token}: {colour};" for token, colour in themes[name].items())
        for name in ("light", "dark")
    )
    preferred = f"@media (prefers-color-scheme: dark) {{ .replay:not([data-theme=light]) {{ {dark} }} }}"
    return f".replay {{ {light} }}\n.replay[data-theme=dark] {{ {dark} }}\n{preferred}\n"


def _shortened(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round the mantissas of values to `_STATE_BITS` bits, because the zeros after these bits compress well."""
    with np.errstate(invalid="ignore"):
        mantissa, exponent = np.frexp(values)
        short: NDArray[np.float64] = np.ldexp(np.round(np.ldexp(mantissa, _STATE_BITS)), exponent - _STATE_BITS)
    return short


def program_of(scripts: Iterable[str]) -> str:
    """Concatenate scripts of the page, after a definition of the design tokens that they read."""
    return "\n".join([f"const TOKENS = {as_json(tokens())};", *(_file(f"{name}.js") for name in scripts)])


def _file(name: str) -> str:
    return (files("netsim.replay") / "page" / name).read_text(encoding="utf-8")


def as_json(value: object) -> str:
    """Return JSON for a script element: in ASCII, without a "<" that could end the element."""
    return json.dumps(_plain(value), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    """Convert numpy's numbers in a value to Python's, and NaN and infinity to None, because JSON lacks them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
