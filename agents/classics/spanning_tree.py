"""The minimum spanning tree that nodes find by themselves (Gallager, Humblet and Spira 1983)."""

import math
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from netsim.agent import Agent
from netsim.agents import papers
from netsim.draw import Badge, Edge, Role
from netsim.util import check

__all__ = ["GHS"]


class GHS(Agent, papers.Cited):
    """A node that finds which of its edges are in the minimum spanning tree, and learns when the tree is complete.

    Each node begins as a fragment of its own. A fragment looks for the lightest edge that leaves it, and connects over
    this edge. Two fragments of one level that choose the same edge become a fragment of the next level, and the edge is
    its core. A fragment that meets one of a higher level is absorbed. A message that a node cannot answer yet waits
    there: a Connect from a fragment that is not lower and that chose an edge which this one has not chosen; a Test from
    a fragment of a higher level; and, at the core, the Report of one half before the other half has finished.

    Parameters
    ----------
    weights : mapping
        The weight of the edge to each neighbour, of which there is at least one. It is the same at both ends, and no
        two edges of the network have the same.

    Attributes
    ----------
    edges : dict
        What the node knows of the edge to each neighbour: "basic" (nothing yet), "branch" (in the tree) or "rejected".
    status : str
        "find" (its fragment looks for its lightest outgoing edge), "found" or "done" (the tree is complete).
    level : int
        The level of its fragment. A fragment of level L has at least 2^L nodes.
    fragment : float
        The identity of its fragment: the weight of the core. NaN at level 0.
    in_branch : node
        The neighbour in the direction of the core; at the core, its other end. None at level 0.
    found : dict
        The lightest outgoing edge's weight, by the neighbour behind which it is.
    awaited : list
        Neighbours of which it awaits an answer, to a Test or an Initiate, while its status is "find".

    Notes
    -----
    Links must keep their order (``Link(fifo=True)``) and lose nothing. All nodes wake at the beginning of their `run`.
    It returns by the algorithm's own knowledge. The two nodes of the last core see that no edge leaves the fragment:
    the paper ends there. Here they pass a Halt along the branches, which are n - 2 messages more. Those of the paper
    are at most 5 n log2(n) + 2 m on n nodes and m edges.

    Source: R. G. Gallager, P. A. Humblet and P. M. Spira, A distributed algorithm for minimum-weight spanning trees,
    ACM TOPLAS 5(1), 1983; numbers in comments are those of the procedures in its appendix. ``found`` and ``awaited``
    hold what is best-edge, best-wt, find-count and test-edge there.
    """

    draw: ClassVar = {"status": Role(usual="found"), "level": Badge(), "in_branch": Edge(colour=False)}

    paper = papers.GHS

    def __init__(self, weights: Mapping[Hashable, float]) -> None:
        self.weights = {j: check.finite("weight", weight) for j, weight in check.mapping("weights", weights).items()}
        if not 0 < len(set(self.weights.values())) == len(self.weights):
            raise check.refuse("weights", weights, "distinct numbers, at least one")
        # The lightest first.
        self.edges = dict.fromkeys(sorted(self.weights, key=self.weights.__getitem__), "basic")
        self.status, self.level, self.fragment = "found", 0, math.nan
        self.in_branch: Hashable = None
        self.found, self.awaited = dict(self.weights), list[Hashable]()

    async def run(self) -> None:
        """Choose the lightest edge, and take messages until the tree is complete."""
        await self.take(self.name, "change_root")
        waiting: list[Any] = []
        while self.status != "done":
            waiting, tried = [*waiting, await self.inbox.get()], 0
            # What must wait is tried again after each message that need not.
            while tried != len(waiting):
                tried, waiting = len(waiting), [f for f in waiting if not await self.take(f.sender, f.kind, *f.payload)]

    async def take(self, j: Hashable, *message: Any) -> bool:
        """Do what a message from neighbour j asks for and return True, or return False if it must wait."""
        match message:
            case "connect", int(level) if level < self.level:  # (3)
                self.edges[j] = "branch"
                self.awaited.append(await self.say(j, "initiate", self.level, self.fragment, self.status))
            case "connect", int(level) if self.edges[j] == "branch":
                self.note(f"core with {j}, level {level + 1}")
                await self.say(j, "initiate", level + 1, self.weights[j], "find")
            case "initiate", int(level), float(fragment), str(status):  # (4)
                self.level, self.fragment, self.status, self.in_branch = level, fragment, status, j
                self.found, self.awaited = {j: math.inf}, await self.spread(*message)
                if status == "find":
                    await self.test()
            case "test", _, self.fragment if j not in self.awaited:  # (6)
                self.edges[j] = "rejected" if self.edges[j] == "basic" else self.edges[j]
                await self.say(j, "reject")
            case ["test", _, self.fragment] | ["reject"]:  # (8); two Tests that cross are each the other's answer
                self.awaited.remove(j)
                self.edges[j] = "rejected" if self.edges[j] == "basic" else self.edges[j]
                await self.test()
            case "test", int(level), _ if level <= self.level:
                await self.say(j, "accept")
            case ["accept"]:  # (7)
                await self.take(j, "report", self.weights[j])
            case "report", float(weight) if j != self.in_branch:  # (10)
                self.awaited.remove(j)
                self.found[j] = weight
                await self.report()
            case "report", float(weight) if self.status == "found" and weight > min(self.found.values()):
                await self.take(j, "change_root")
            case ["report", math.inf] | ["halt"] if self.status == "found":
                self.status = "done"
                await self.spread("halt")
            case ["change_root"]:  # (11) and (12)
                best = min(self.found, key=self.found.__getitem__)
                step = ("change_root",) if self.edges[best] == "branch" else ("connect", self.level)
                self.edges[best] = "branch"
                await self.say(best, *step)
            case kind, *_:
                # If the other half of the core found the lighter edge, this one has nothing to do.
                return kind == "report" and self.status == "found"
        return True

    async def test(self) -> None:  # (5)
        """Ask over the lightest edge of which nothing is known whether it leaves the fragment."""
        edge = next((j for j, state in self.edges.items() if state == "basic"), None)
        if edge is None:
            await self.report()
        else:
            self.awaited.append(await self.say(edge, "test", self.level, self.fragment))

    async def report(self) -> None:  # (9)
        """Tell the weight of the lightest edge towards the core, once all have answered."""
        if not self.awaited:
            self.status = "found"
            await self.say(self.in_branch, "report", min(self.found.values()))

    async def spread(self, *message: Any) -> list[Hashable]:
        """Send a message along the branches away from the core; return the neighbours there."""
        return [await self.say(j, *message) for j in self.edges if self.edges[j] == "branch" and j != self.in_branch]

    async def say(self, to: Hashable, kind: str, *values: Any) -> Hashable:
        """Send a message, labelled with its values, and return the neighbour."""
        await self.send(to, kind, values, label=" ".join(str(each).removesuffix(".0") for each in values))
        return to
