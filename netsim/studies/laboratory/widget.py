"""The widget of a lab in a notebook (anywidget): its page in a frame, with requests sent to Python as messages."""

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from netsim.replay.html import as_json
from netsim.replay.notebook import LOWEST, Replay
from netsim.run import Run
from netsim.studies.laboratory.page import page
from netsim.util import check

if TYPE_CHECKING:
    from netsim.studies.laboratory.notebook import LabSession

__all__ = ["LabWidget"]


class LabWidget(anywidget.AnyWidget):
    """The page of a lab.

    Parameters
    ----------
    session : LabSession
        Simulates the branches.
    height : int
        The height of the widget in pixels, at least 200.

    Attributes
    ----------
    height : int
        As given.
    """

    _esm = Replay._esm
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(min=LOWEST).tag(sync=True)

    def __init__(self, session: "LabSession", height: int) -> None:
        self._session = session
        # Requests for news that wait for the next change.
        self._waiting: list[Any] = []
        super().__init__(page=page("network", framed=True), height=height)
        self.on_msg(self._receive)

    def run(self, branch: int = 0) -> Run:
        """Return a branch's run, by the number on its card; raises BadInput if it has none."""
        number = check.integer("branch", branch, low=0)
        if number not in self._session.runs:
            raise check.refuse("branch", branch, f"one of {', '.join(map(str, self._session.runs))}")
        return self._session.runs[number]

    def _receive(self, widget: Any, message: Any, buffers: Any) -> None:
        """Answer a request of the page."""
        if not isinstance(message, dict):
            return
        number, what, asked = (message.get(name) for name in ("number", "what", "asked"))
        if not isinstance(what, str) or not isinstance(asked, dict):
            self.send({"number": number, "answer": as_json({"error": "must be a question and an object"})})
            return
        if what == "state" and asked.get("seen") == self._session.version:
            self._waiting.append(number)
            return
        self.send({"number": number, "answer": self._session.as_json(what, asked)})
        if what != "state" and self._waiting:
            state = self._session.as_json("state", {})
            for each in self._waiting:
                self.send({"number": each, "answer": state})
            self._waiting.clear()
