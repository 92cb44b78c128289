"""The page of a replay as a notebook widget (anywidget), which shows the page in a frame."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import anywidget
import traitlets

from netsim.replay.html import html

__all__ = ["Replay"]

LOWEST = 200
"""The smallest height of the widget in pixels."""


class Replay(anywidget.AnyWidget):
    """A widget that shows the page of a run.

    Parameters
    ----------
    meta, columns : mapping
        The run, as for `netsim.replay.html.html`.
    height : int
        The widget's height in pixels, at least 200.

    Attributes
    ----------
    time : float
        The simulated time that is shown, in seconds. Setting it moves the film there.
    playing : bool
        Whether the film is playing.
    speed : float or None
        The speed of the film; at speed 1 a flight takes at least half a second. None until the page is loaded.
    agent : int or None
        The number of the agent that is inspected, in the order of the graph.
    height : int
        The widget's height in pixels.
    """

    _esm = (files("netsim.replay") / "page" / "widget.mjs").read_text(encoding="utf-8")
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(min=LOWEST).tag(sync=True)
    time = traitlets.Float(0.0, min=0.0).tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    speed = traitlets.Float(None, allow_none=True).tag(sync=True)
    agent = traitlets.Int(None, allow_none=True, min=0).tag(sync=True)

    def __init__(self, meta: Mapping[str, Any], columns: Mapping[str, Any], height: int) -> None:
        super().__init__(page=html({**meta, "framed": True}, columns), height=height)
