"""Draw pictures of a run with the page's own scripts in a JavaScript engine, without a browser."""

import base64
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.replay.canvas import Call, width_of
from netsim.replay.html import as_json, page_parts, program_of, tokens

__all__ = ["Still", "program", "told"]

# The scripts that draw pictures; concatenated in this order, they form one program.
_SCRIPTS = (
    *("events", "look", "run", "states", "drawn", "stage", "causality", "sheet", "spacetime", "strip", "player"),
    *("still/recorder", "still/still", "still/begin"),
)


class Still:
    """Draws pictures of a run, at any film time.

    Parameters
    ----------
    meta, columns : mapping
        The run, as for `netsim.replay.html.html`.
    view : str
        "map" or "spacetime".
    theme : str
        "light" or "dark".
    size : (int, int)
        Width and height in pixels.
    k : float
        The scale of text; 1 means 12 pixels.
    begin, end : float
        The times (s) from which to which a diagram goes, and for which a legend explains what is drawn.

    Attributes
    ----------
    about : (str, str)
        The picture's title, and a line that describes it.
    ground : str
        The colour of the picture's background.

    Raises
    ------
    BadInput
        If no JavaScript engine is installed.
    """

    def __init__(
        self,
        meta: Mapping[str, Any],
        columns: Mapping[str, NDArray[Any]],
        *,
        view: str,
        theme: str,
        size: tuple[int, int],
        k: float,
        begin: float,
        end: float,
    ) -> None:
        how = {"view": view, "theme": theme, "width": size[0], "height": size[1], "k": k, "begin": begin, "end": end}
        starts, self._picture = _functions()
        title, about = json.loads(starts(told(meta, columns, how)))
        self.about: tuple[str, str] = (title, about)
        self._below: list[Call] = []
        self.ground: str = tokens()["themes"][theme]["paper"]

    def at(self, film: float | None) -> tuple[list[Call], list[Call]]:
        """Return the drawing calls of the lower and upper layers at a film time (s).

        With None, a diagram gets no cursor. If the lower layer is unchanged since the last call, the same object is
        returned.
        """
        found = json.loads(self._picture(-1.0 if film is None else film))
        self._below = self._below if found["below"] is None else found["below"]
        return self._below, found["above"]


def told(meta: Mapping[str, Any], columns: Mapping[str, NDArray[Any]], how: Mapping[str, Any]) -> str:
    """Return the JSON argument of the function ``begin`` in still/begin.js: the run, and how to draw it."""
    page, events = page_parts(meta, columns)
    return as_json({"meta": page, "columns": {name: _packed(each) for name, each in events.items()}, **how})


def program() -> str:
    """Return the drawing scripts as one program, which calls a function ``widthOf`` of a text and its style."""
    return program_of(_SCRIPTS)


def _packed(column: NDArray[Any]) -> tuple[str, str]:
    """Return a column's type and its bytes in base64; 64-bit integers become floats, because JavaScript lacks them."""
    plain = column.astype("<f8") if column.dtype.itemsize == 8 else column.astype(column.dtype.newbyteorder("<"))
    return plain.dtype.str[1:], base64.b64encode(plain.tobytes()).decode()


def _functions() -> tuple[Callable[[str], str], Callable[[float], str]]:
    """Load still/begin.js in a new JavaScript engine (with Pyodide, the browser's), and return its two functions."""
    if sys.platform == "emscripten":
        from pyodide.code import run_js
        from pyodide.ffi import create_proxy

        found = run_js(f"(widthOf) => {{ {program()}\nreturn [begin, picture]; }}")(create_proxy(width_of))
        return found[0], found[1]
    try:
        import quickjs
    except ImportError as error:
        raise BadInput("pictures: require the package quickjs-ng, which is not installed here") from error
    engine = quickjs.Context()
    engine.add_callable("widthOf", width_of)
    engine.eval(program())
    return engine.get("begin"), engine.get("picture")
