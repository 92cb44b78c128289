"""`netsim.lab` in a notebook: the page of a lab as a widget, which requests each branch from Python."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.clock.order import Order, ordering
from netsim.errors import BadInput, NetsimError, one_line
from netsim.faults.words import appending
from netsim.network import Agents, Network
from netsim.replay.html import as_json
from netsim.run import Probe, Run
from netsim.studies.laboratory.tree import Source, Tree, shortened, text_of, told
from netsim.util import check

if TYPE_CHECKING:
    from netsim.studies.laboratory.widget import LabWidget

__all__ = ["LabSession", "lab"]


@check.named
def lab(
    network: Network,
    agents: Agents | Callable[[], Agents],
    probes: Sequence[Probe] = (),
    *,
    until: float | None = None,
    sample: float | None = None,
    height: int = 640,
) -> "LabWidget":
    """Show an interactive run in a notebook: a click crashes a node or cuts a link, in a new branch.

    Parameters
    ----------
    network : Network
        The network to run, with its faults and watched states.
    agents : mapping or callable
        {node: Agent}, deep-copied for each branch; or a function that returns new ones.
    probes, until, sample
        As for `Network.run`.
    height : int
        The height of the widget in pixels, at least 200.

    Returns
    -------
    LabWidget
        The widget; ``widget.run(branch)`` is the `Run` of a branch, by its number on the page.

    Raises
    ------
    BadInput
        If anywidget is not installed, an argument cannot be used, or agents cannot be copied.
    """
    check.instance("network", network, Network, "a netsim.Network; a study has the command netsim lab")
    check.installed("lab", "anywidget", "notebook")
    from netsim.studies.laboratory.widget import LabWidget

    height = check.integer("height", height, low=200)
    given = {"until": until, "sample": sample}
    # A numpy number would not be valid in the script that repeats a branch.
    options = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    return LabWidget(LabSession(network, _maker(agents), probes, options), height)


def _maker(agents: Agents | Callable[[], Agents]) -> Callable[[], Agents]:
    """Return a function that makes new agents for each branch."""
    if callable(agents):
        return agents
    check.instance("agents", agents, Mapping, "a mapping {node: Agent}, or a function that returns one")
    try:
        kept = copy.deepcopy(dict(agents))
        copy.deepcopy(kept)
    except Exception as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        raise BadInput(
            f"agents: must be such that they can be copied, or a function that returns them ({why})"
        ) from None
    return lambda: copy.deepcopy(kept)


@dataclass(frozen=True)
class _InPython(Source):
    """The ways to repeat a branch in Python; ``options`` are those of `Network.run`."""

    options: Mapping[str, Any] = field(default_factory=dict)

    def command(self, settings: Mapping[str, Any], at: str, order: str) -> str:
        """Return the lines of Python that repeat a branch."""
        options = "".join(f", {name}={value!r}" for name, value in self.options.items() if value is not None)
        if order:
            options += f", order={order if order.isdecimal() else f'netsim.testing.Order.parse({order!r})'}"
        run = f"run = network.run(agents{options})  # new agents"
        return f"with netsim.faults.words.appending({at!r}):\n    {run}" if at else run

    def sweep(self, settings: Mapping[str, Any], at: str, order: str) -> str:
        """Return "", because only a study has sweeps."""
        return ""

    def script(self, settings: Mapping[str, Any], at: str, order: str, name: str, trace_hash: str) -> str:
        """Return the script that repeats a branch, and fails if its run differs."""
        return (
            f"# {name}\n{self.command(settings, at, order)}\nassert run.trace_hash == {trace_hash!r}, run.trace_hash\n"
        )


class LabSession:
    """Simulates the branches of a lab in this process, and answers its page's requests.

    Parameters
    ----------
    network : Network
        The network to run.
    make : callable
        Returns new agents.
    probes, options
        As for `Network.run`.

    Attributes
    ----------
    runs : dict
        The run of each branch, by its number.
    version : int
        The number of changes so far, for which the page polls.
    """

    def __init__(
        self, network: Network, make: Callable[[], Agents], probes: Sequence[Probe], options: Mapping[str, Any]
    ) -> None:
        self._network, self._make, self._probes, self._options = network, make, probes, options
        self._tree, self.version = Tree(_InPython("network", (), options), {}), 1
        self.runs: dict[int, Run] = {}
        self._simulate()

    def answer(self, what: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of the page, as `netsim.studies.laboratory.server.LabServer` does."""
        if what == "state":
            return {"version": self.version, "controls": [], "file_error": "", **self._tree.as_dict()}
        try:
            if what == "run":
                result = self._tree.get(asked.get("branch")).result
                return {"data": result["runs"][0]["data"] if result and result["runs"] else None}
            if what == "fault":
                branch = self._tree.grow(
                    self._tree.get(asked.get("branch")), text_of("text", asked.get("text"), "a fault in words")
                )
                self._simulate()
                return {"branch": branch.number, "version": self.version}
            if what == "delete":
                branch = self._tree.get(asked.get("branch"))
                self._tree.delete(branch)
                self.runs = {number: run for number, run in self.runs.items() if number in self._tree.branches}
                self.version += 1
                return {"branch": branch.parent, "version": self.version}
        except BadInput as error:
            return {"error": shortened(one_line(error))}
        return {"error": f"{what}: there is no such question"}

    def _simulate(self) -> None:
        """Simulate the waiting branches."""
        from netsim.studies.laboratory.shown import shown

        while (branch := self._tree.waiting(0)) is not None:
            error, run = "", None
            order = Order.parse(branch.order) if branch.order else None
            if order is not None:
                order.records = order.tells = True
            try:
                with appending(branch.at), ordering(order):
                    run = self._network.run(self._make(), self._probes, trace=True, **self._options)
            except NetsimError as failed:
                error, run = one_line(failed), getattr(failed, "run", None)
            found = {} if run is None else {"run": run}
            runs = shown("run", found, self._tree.source.command({}, branch.at, branch.order))
            trace_hash = "" if run is None else run.trace_hash
            self._tree.take(branch, {"runs": runs, "hash": trace_hash, "error": error, "words": told(order)})
            if run is not None:
                self.runs[branch.number] = run
            self.version += 1

    def as_json(self, what: str, asked: Mapping[str, Any]) -> str:
        """Return `answer` as JSON."""
        return as_json(self.answer(what, asked))
