"""The lab of a study or a script, served to this machine only: `netsim lab`."""

import json
import re
import threading
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from netsim.errors import BadInput, one_line
from netsim.live.server import Answer, Loopback
from netsim.replay.html import as_json
from netsim.studies import catalogue
from netsim.studies.laboratory.controls import controls
from netsim.studies.laboratory.page import page
from netsim.studies.laboratory.process import Cancelled, Worker
from netsim.studies.laboratory.tree import Branch, Source, Tree, shortened, text_of
from netsim.util import check

__all__ = ["LabServer"]

# Real seconds: how long a request for news waits, and between two checks of a file.
_NEWS_TIMEOUT, _POLL_INTERVAL = 20.0, 0.5

# The fields that a page may send with each request.
_FIELDS = {
    "fault": ("branch", "text"),
    "settings": ("branch", "values"),
    "delete": ("branch",),
    "cancel": ("branch",),
}


class LabServer(AbstractContextManager["LabServer"]):
    """Serves the lab at ``address`` until it is closed.

    Parameters
    ----------
    study : str
        A study's name, or the path of a Python file (`netsim.studies.find_study`).
    settings : mapping
        Initial values of the study's parameters.
    at : str
        Faults, as text, of a first branch besides the main run.
    order : str
        The order of simultaneous steps in that branch: a seed, or text.
    browser : bool
        Whether to open the browser; the address is reported in any case.
    report : callable
        Called with lines for the user.

    Raises
    ------
    BadInput
        If the study is unknown, or a fault is invalid.
    NetsimError
        If there is no free port.
    """

    def __init__(
        self,
        study: str,
        settings: Mapping[str, Any],
        *,
        at: str = "",
        order: str = "",
        browser: bool = True,
        report: Callable[[str], None] = print,
    ) -> None:
        definition = catalogue.find_study(study)
        self._tree = Tree(Source(study, definition.parameters), settings)
        self._file = Path(study) if study.endswith(".py") else None
        self._changed_at = self._mtime()
        self._file_error = ""
        changes = [*(at.split("; ") if at else []), *([f"order {order}"] if order else [])]
        for change in changes:
            self._tree.grow(list(self._tree.branches.values())[-1], change)
        self._first = max(self._tree.branches)
        # This lock guards all attributes above. ``_version`` counts changes; requests for news wait for the next one.
        self._news = threading.Condition()
        self._version, self._running, self._over = 1, -1, False
        self._worker = Worker()
        self._http = Loopback("lab", self._answer, self._act)
        self.address = self._http.address
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._simulate, self._watch)]
        for thread in self._threads:
            thread.start()
        report(f"the lab is at {self.address}")
        if browser:
            with suppress(webbrowser.Error):
                webbrowser.open(self.address)

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        with suppress(KeyboardInterrupt), self._news:
            while not self._over:
                # Wait in steps: on some systems a longer wait blocks Ctrl-C.
                self._news.wait(0.5)

    def close(self) -> None:
        """Stop serving, and end the running simulation."""
        with self._news:
            self._over = True
            self._news.notify_all()
        self._worker.end()
        self._http.close()
        for thread in self._threads:
            thread.join()

    # --- simulating ---------------------------------------------------------------------------------------------------

    def _simulate(self) -> None:
        """Simulate the waiting branches, one after the other."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._over or self._tree.waiting(self._first))
                branch = self._tree.waiting(self._first)
                if self._over or branch is None:
                    return
                branch.state, self._running = "running", branch.number
                request = self._tree.request(branch)
                self._changed()
            self._simulate_one(branch, request)

    def _simulate_one(self, branch: Branch, request: dict[str, Any]) -> None:
        def progress(text: str) -> None:
            with self._news:
                branch.progress = text
                self._changed()

        try:
            result = self._worker.simulate(request, progress)
        except Cancelled:
            result = None
        with self._news:
            # During the simulation the branch may have been deleted, or the settings changed.
            if self._running == branch.number and branch.state == "running":
                if result is None:
                    branch.state, branch.error = "cancelled", "cancelled, or its process ended"
                else:
                    self._tree.take(branch, result)
            self._running = -1
            self._changed()

    def _changed(self) -> None:
        self._version += 1
        self._news.notify_all()

    def _again(self) -> None:
        """Simulate all branches again, in a new process because the user's modules may have changed."""
        self._running = -1
        self._tree.again()
        self._worker.end()
        self._changed()

    # --- the file -----------------------------------------------------------------------------------------------------

    def _mtime(self) -> float:
        with suppress(OSError):
            if self._file is not None:
                return self._file.stat().st_mtime
        return 0.0

    def _watch(self) -> None:
        """Reload the file when it is edited."""
        while self._file is not None:
            with self._news:
                self._news.wait_for(lambda: self._over, _POLL_INTERVAL)
                if self._over:
                    return
            now = self._mtime()
            if now in (0.0, self._changed_at):
                continue
            self._changed_at = now
            self._reload()

    def _reload(self) -> None:
        try:
            definition = catalogue.find_study(str(self._file))
        except BaseException as error:
            # Ctrl-C reaches only the main thread, so any error here comes from the file.
            kind = "" if isinstance(error, BadInput) else f"{self._file}: {type(error).__name__}: "
            with self._news:
                self._file_error = kind + one_line(error)
                self._changed()
            return
        with self._news:
            self._file_error = ""
            source = Source(str(self._file), definition.parameters)
            usual = {each.name: each.default for each in definition.parameters}
            kept = {}
            for name, value in self._tree.settings.items():
                # Drop the value if the parameter now has another type.
                with suppress(BadInput):
                    kept[name] = source.checked(name, value)
            self._tree.source, self._tree.settings = source, usual | kept
            self._again()

    # --- questions ----------------------------------------------------------------------------------------------------

    def _answer(self, rest: str) -> Answer | None:
        """Return the answer to a GET request: the page, the news, or a branch's run; None if there is no such path."""
        if not rest:
            return HTTPStatus.OK, "text/html", page(self._tree.source.study)
        if found := re.fullmatch(r"state\?seen=(\d{1,9})", rest, re.ASCII):
            return HTTPStatus.OK, "application/json", self._state(int(found[1]))
        if found := re.fullmatch(r"branch/(\d{1,9})/(\d{1,9})", rest, re.ASCII):
            return self._run(int(found[1]), int(found[2]))
        return None

    def _state(self, seen: int) -> str:
        """Return the page's data on all branches; waits until there is something new since version ``seen``."""
        with self._news:
            self._news.wait_for(lambda: self._version != seen or self._over, _NEWS_TIMEOUT)
            state = {"version": self._version, "controls": controls(self._tree.source.parameters)}
            return as_json(state | self._tree.as_dict() | {"file_error": self._file_error})

    def _run(self, number: int, place: int) -> Answer | None:
        with self._news:
            branch = self._tree.branches.get(number)
            runs = [] if branch is None or branch.result is None else branch.result["runs"]
            return (HTTPStatus.OK, "application/json", runs[place]["data"]) if place < len(runs) else None

    # --- the page's requests ------------------------------------------------------------------------------------------

    def _act(self, rest: str, asked: Any) -> Answer | None:
        """Carry out a page's request.

        The answer has the ``branch`` to show and the ``version`` that contains it, or an ``error``.
        """
        acts = {"fault": self._fault, "settings": self._set, "delete": self._delete, "cancel": self._cancel}
        if rest not in acts:
            return None
        try:
            check.instance("asked", asked, dict, "an object")
            for name in asked:
                check.one_of(f"field of {rest}", name, _FIELDS[rest])
            with self._news:
                found, version = acts[rest](asked), self._version
        except BadInput as error:
            answer = json.dumps({"error": shortened(one_line(error))})
            return HTTPStatus.BAD_REQUEST, "application/json", answer
        return HTTPStatus.OK, "application/json", json.dumps({"branch": found, "version": version})

    def _fault(self, asked: dict[str, Any]) -> int:
        """Start a branch with one more fault, or with another order, given as text."""
        text = text_of("text", asked.get("text"), "a fault in words")
        branch = self._tree.grow(self._tree.get(asked.get("branch")), text)
        self._first = branch.number
        self._changed()
        return branch.number

    def _set(self, asked: dict[str, Any]) -> int:
        """Change settings, and simulate all branches again."""
        values: Any = asked.get("values")
        check.instance("values", values, dict, "an object of settings")
        new = {name: self._tree.source.checked(name, value) for name, value in values.items()}
        first = self._first if asked.get("branch") is None else self._tree.get(asked["branch"]).number
        if any(self._tree.settings[name] != value for name, value in new.items()):
            self._tree.settings |= new
            self._first = first
            self._again()
        return self._first

    def _delete(self, asked: dict[str, Any]) -> int:
        """Delete a branch and its descendants."""
        branch = self._tree.get(asked.get("branch"))
        self._tree.delete(branch)
        if self._running not in self._tree.branches:
            self._running = -1
            self._worker.end()
        self._changed()
        return branch.parent

    def _cancel(self, asked: dict[str, Any]) -> int:
        """Cancel the simulation of a branch; resume a cancelled one."""
        branch = self._tree.get(asked.get("branch"))
        if branch.state == "running":
            branch.state, branch.error = "cancelled", "cancelled"
            self._worker.end()
        elif branch.state == "waiting":
            branch.state = "cancelled"
        elif branch.state == "cancelled":
            branch.state, branch.error = "waiting", ""
        self._changed()
        return branch.number
