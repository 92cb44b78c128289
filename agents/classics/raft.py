"""Raft: nodes that crash, over links that fail, agree on one list of commands."""

import asyncio
from collections.abc import Hashable, Iterable
from typing import Any, ClassVar

import netsim
from netsim.agents import papers
from netsim.draw import Arc, Badge, Role, Strip
from netsim.util import check

__all__ = ["Raft"]


class Raft(netsim.Agent, papers.Cited):
    """One server of a Raft cluster: the nodes elect a leader, which copies its log of commands to the others.

    The cluster is the node and its neighbours, so the graph must be complete, of two nodes or more. A command is
    committed once a majority has it. Committed commands are the same, and in the same order, at every node, whatever is
    lost, delayed, cut or crashed. The node never ends: give `netsim.Network.run` an ``until``.

    A real server keeps ``term``, ``voted_for`` and ``log`` on disk. Here they are attributes that `run` does not reset,
    so they survive ``netsim.faults.Crash(…, keeps_state=True)`` (in words ``crash 2 until 1 keeping state``); all else
    begins anew. A crash without ``keeps_state`` loses the disk as well. Raft is not made for that and not safe then:
    the node may vote a second time in a term, or forget a command that was committed with its help.

    Parameters
    ----------
    heartbeat : float
        How often a leader sends to its followers (s).
    election : (float, float)
        How long a node waits for a leader before it stands for election (s): drawn anew each time, between the two.
        Both must be greater than ``heartbeat``, and should be several times the latency of a frame.
    commands : iterable of (float, object)
        What clients want, and from which time on (s). Clients ask all nodes; whoever leads appends, with its next
        heartbeat, those commands that its log does not have. So no two commands may be equal.

    Attributes
    ----------
    role : str
        ``"follower"``, ``"candidate"`` or ``"leader"``.
    term : int
        The newest term that the node knows; a term has at most one leader. Kept on disk.
    voted_for : node or None
        For whom it has voted in this term. Kept on disk.
    log : list of (int, object)
        The entries: each the term in which a leader appended it, and the command. ``log[0]`` stands before the first
        one, ``log[1]``. Kept on disk.
    commit : int
        The index of the last entry that the node knows to be committed: ``log[1 : commit + 1]`` are.
    votes : set
        Who has voted for it in this term, if it is a candidate.
    match : dict
        If it leads: up to which entry a follower's log is known to be its own.
    led : list of int
        The terms that the node has led, for tests. Kept as the disk is.
    due : float
        Until when it waits for a message before it acts (s).

    Notes
    -----
    Source: Ongaro and Ousterhout 2014, figure 2. For ``nextIndex`` it takes the entry after ``match``, and the next new
    one as long as a follower has not answered; so after one refusal it sends its whole log. Left out are changes of
    membership, snapshots, and the empty entry with which section 8 lets a new leader commit earlier entries before
    there is a new command. Requests are not repeated at once: the next heartbeat, or the next election, is.
    """

    draw: ClassVar = {
        "role": Role(usual="follower"),
        "term": Badge(),
        "due": Arc(lambda a: None if a.role == "leader" else a.due),
        "log": Strip(lambda a: a.log[1:], committed="commit"),
    }

    paper = papers.RAFT

    def __init__(
        self, heartbeat: float = 0.05, election: tuple[float, float] = (0.15, 0.3), commands: Iterable[Any] = ()
    ) -> None:
        self.heartbeat = check.finite("heartbeat", heartbeat, above=0)
        low, high = check.pair("election", election, "(least, most)")
        self.election = check.finite("election", low, above=self.heartbeat), check.finite("election", high, low=low)
        self.commands = check.timed("commands", commands)
        self.voted_for: Hashable = None
        self.term, self.log, self.led = 0, list[tuple[int, Any]]([(0, None)]), list[int]()
        self.role, self.commit, self.votes, self.match = "follower", 0, set[Hashable](), dict[Hashable, int]()

    async def run(self) -> None:
        """Take part for ever. What is not on disk begins anew, because the node may have crashed."""
        self.role, self.commit, self.due = "follower", 0, self.patience()
        while True:
            try:
                async with asyncio.timeout_at(self.due):
                    frame = await self.inbox.get()
            except TimeoutError:
                await (self.lead() if self.role == "leader" else self.stand())
            else:
                await self.hear(frame.sender, frame.kind, *frame.payload)

    def patience(self) -> float:
        """Return until when to wait for a leader, or for votes (s)."""
        return self.now + self.rng.uniform(*self.election)

    def quorum(self) -> int:
        """Return how many nodes are a majority: any two majorities have a node in common."""
        return (len(self.neighbors) + 1) // 2 + 1

    async def hear(self, sender: Hashable, kind: str, term: int, *rest: Any) -> None:
        """Act upon a message: first of all upon its term, since a newer one ends whatever the node was."""
        if term > self.term:
            if self.role == "leader":
                self.note("steps down")
            self.role, self.term, self.voted_for, self.due = "follower", term, None, self.patience()
        await getattr(self, "hear_" + kind.replace("?", "_request"))(sender, term, *rest)

    # --- election -----------------------------------------------------------------------------------------------------

    async def stand(self) -> None:
        """Stand for election in the next term."""
        self.role, self.votes, self.due = "candidate", set(), self.patience()
        self.term, self.voted_for = self.term + 1, self.name
        await self.broadcast("vote?", (self.term, (self.log[-1][0], len(self.log))), label=f"t{self.term}")
        await self.hear_vote(self.name, self.term, granted=True)

    async def hear_vote_request(self, sender: Hashable, term: int, last: tuple[int, int]) -> None:
        """Vote, once a term, and only for a candidate whose log is at least as complete as the node's own."""
        is_complete = last >= (self.log[-1][0], len(self.log))
        if granted := term == self.term and self.voted_for in (None, sender) and is_complete:
            self.voted_for, self.due = sender, self.patience()
        await self.send(sender, "vote", (self.term, granted), label=f"t{self.term} {'yes' if granted else 'no'}")

    async def hear_vote(self, sender: Hashable, term: int, granted: bool) -> None:
        """Count a vote; lead, with those of a majority."""
        if granted and term == self.term and self.role == "candidate":
            self.votes.add(sender)
            if len(self.votes) >= self.quorum():
                self.role, self.match, self.led = "leader", {}, [*self.led, self.term]
                self.note("becomes leader")
                await self.lead()

    # --- log ----------------------------------------------------------------------------------------------------------

    async def lead(self) -> None:
        """Append what clients want, and send each follower what it lacks; if that is nothing, it is a heartbeat."""
        self.due, known = self.now + self.heartbeat, [command for _, command in self.log]
        self.log += [(self.term, command) for at, command in self.commands if at <= self.now and command not in known]
        for each in self.neighbors:
            before = self.match.get(each, len(self.log) - 1)
            entries = self.log[before + 1 :]
            body = (self.term, before, self.log[before][0], entries, self.commit)
            await self.send(each, "append", body, label=f"t{self.term} {[c for _, c in entries] or ''}"[:40].strip())

    async def hear_append(self, sender: Hashable, term: int, before: int, its: int, entries: Any, commit: int) -> None:
        """Take over the leader's entries, if the node's log is the leader's up to there."""
        match = 0
        if term == self.term:
            self.role, self.due = "follower", self.patience()
            if before < len(self.log) and self.log[before][0] == its:
                match = before + len(entries)
                # A late message may hold fewer entries than the log: only what differs is removed.
                if self.log[before + 1 : match + 1] != entries:
                    self.log[before + 1 :] = entries
                self.commit = max(self.commit, min(commit, match))
        await self.send(sender, "ack", (self.term, match), label=f"t{self.term} #{match}")

    async def hear_ack(self, sender: Hashable, term: int, match: int) -> None:
        """Note what a follower has; commit what a majority has, if it ends with an entry of the leader's own term."""
        if term == self.term and self.role == "leader":
            self.match[sender] = max(self.match.get(sender, 0), match)
            agreed = sorted([len(self.log) - 1, *self.match.values(), *[0] * len(self.neighbors)])[-self.quorum()]
            # An earlier term's entry may still be replaced, even if a majority has it (section 5.4.2).
            if self.log[agreed][0] == self.term:
                self.commit = agreed
