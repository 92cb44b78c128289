"""Record a run's faults in the format of the trace, for the replay page and the figures."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx

from netsim.faults.events import Fault, Partition, Rewire, settings_text

if TYPE_CHECKING:
    from netsim.faults.events import Links

__all__ = ["FaultRecord"]


class FaultRecord:
    """Records the faults that begin in a run.

    ``spans`` lists these faults, each as a dict with the keys described at ``RunMetadata.faults``
    (`netsim.accounting`).
    """

    def __init__(self, agents: Iterable[Hashable]) -> None:
        self.spans: list[dict[str, Any]] = []
        self._numbers = {name: number for number, name in enumerate(agents)}
        # {key: element of ``spans``} for each fault that has not ended. The key is the fault's index in the script, or
        # ("empty", agent) for an empty battery. For changes by the user's program the key is ("link", link) for a cut
        # link, ("hold", link) for a link on hold, and ("change", link) for changed settings.
        self._open: dict[Any, dict[str, Any]] = {}

    def begin(self, number: int, fault: Fault, graph: "nx.Graph[Any]", time: float) -> None:
        """Record that a fault of the script begins at ``time`` (s)."""
        links: Links = () if isinstance(fault, Rewire) else fault.links_in(graph)
        sides = {}
        if isinstance(fault, Partition):
            side = set(fault.side)
            sides = {"sides": [self._of(fault.side), self._of(name for name in graph if name not in side)]}
        self._add(number, type(fault).__name__, str(fault), time, fault.agents(), links, **sides)

    def end(self, number: int, time: float) -> None:
        """Record that a fault of the script ends at ``time`` (s)."""
        self._open.pop(number)["end"] = time

    def set_links(self, links: "Links", up: bool, time: float) -> None:
        """Record that the user's program cuts or restores a link, in one direction or both, at ``time`` (s)."""
        self._note_program("link", links, time, "SetLink", None if up else f"{_of_link(links)} is cut by the program")

    def hold_links(self, links: "Links", on: bool, time: float) -> None:
        """Record that the user's program holds or releases a link, in one direction or both, at ``time`` (s)."""
        self._note_program("hold", links, time, "Hold", f"frames on {_of_link(links)} wait" if on else None)

    def change_links(self, links: "Links", settings: Mapping[str, Any], time: float) -> None:
        """Record that the user's program changes settings of a link, in one direction or both, at ``time`` (s)."""
        self._note_program("change", links, time, "LinkChange", f"{_of_link(links)} has {settings_text(settings)}")

    def _note_program(self, key: str, links: "Links", time: float, what: str, begins: str | None) -> None:
        """End the record of the program's last change of these links, and begin a record of the new change, if any."""
        for link in links:
            before = self._open.pop((key, link), None)
            if before is not None:
                before["end"] = time
        if begins is not None:
            span = self._add((key, links[0]), what, f"{begins} from {time:g} s", time, (), links)
            self._open |= {(key, link): span for link in links}

    def empty(self, agent: Hashable, time: float) -> None:
        """Record that an agent's battery is empty at ``time`` (s)."""
        self._add(
            ("empty", agent), "Empty", f"the battery of agent {agent!r} is empty at {time:g} s", time, (agent,), ()
        )

    def _add(
        self,
        key: Any,
        what: str,
        text: str,
        time: float,
        agents: Iterable[Hashable],
        links: "Links",
        **more: Any,
    ) -> dict[str, Any]:
        pairs = [self._of(link) for link in links]
        span = {"what": what, "text": text, "begin": time, "end": None, "agents": self._of(agents), "links": pairs}
        self._open[key] = span | more
        self.spans.append(self._open[key])
        return self._open[key]

    def _of(self, names: Iterable[Hashable]) -> list[int]:
        return [self._numbers[name] for name in names]


def _of_link(links: "Links") -> str:
    sender, receiver = links[0]
    return f"link {sender!r} {'↔' if len(links) > 1 else '→'} {receiver!r}"
