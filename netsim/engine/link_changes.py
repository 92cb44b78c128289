"""Change links during a run: set new settings, hold frames back, drop frames in flight."""

import math
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netsim.core.records import LOST
from netsim.errors import BadInput
from netsim.links.link import Link
from netsim.links.rate import Rate
from netsim.radio.settings import Radio
from netsim.transport.inbox import withdraw
from netsim.transport.transmitter import Shift

if TYPE_CHECKING:
    from netsim.engine.runtime import Runtime

__all__ = ["LinkChanges"]

Ends = tuple[Hashable, Hashable]


class LinkChanges:
    """The changed links of one run.

    If a permanent and a temporary change overlap, the change that began last determines a setting that both change.
    """

    def __init__(self, run: "Runtime") -> None:
        self._run = run
        # For each permanently changed link: the changed settings.
        self._own: dict[Ends, dict[str, Any]] = {}
        # For each temporarily changed link: {number of the fault: changed settings}, in the order in which the faults
        # began.
        self._for_a_time: dict[Ends, dict[int, dict[str, Any]]] = {}
        # Cache for each changed link: the last changed settings, and the Link made from them.
        self._made: dict[Ends, tuple[dict[str, Any], Link]] = {}
        # For each link on hold: the keys of its holds, in a dict because it keeps their order, unlike a set.
        self._holds: dict[Ends, dict[Any, None]] = {}

    # --- settings -----------------------------------------------------------------------------------------------------

    def check(self, what: str, links: Iterable[Ends], settings: Mapping[str, Any]) -> None:
        """Raise BadInput if a link cannot have these settings; ``what`` names the change."""
        for link in links:
            self._check(what, link, self._now(link), settings)

    def check_queue(self, links: Iterable[Ends], settings: Mapping[str, Any]) -> None:
        """Raise BadInput if settings contain a queue limit, but with these settings no frame ever waits on a link."""
        for link in links:
            after = _changed(self._now(link), settings)
            for name in ("queue", "queue_bits"):
                if name in settings and getattr(after, name) is None:
                    given = f"{name} = {settings[name]}"
                    raise BadInput(f"{given}: must come with a rate or a budget, or nothing ever waits")

    def change(self, what: str, links: Iterable[Ends], settings: Mapping[str, Any]) -> None:
        """Change settings of links permanently; if `check` would raise BadInput, raise it and change no link."""
        links = tuple(links)
        self.check(what, links, settings)
        for link in links:
            self._own.setdefault(link, {}).update(settings)
            self._made.pop(link, None)
            for each in self._for_a_time.get(link, {}).values():
                for name in settings:
                    each.pop(name, None)
            self._apply(link)

    def begin(self, what: str, links: Iterable[Ends], settings: Mapping[str, Any], number: int) -> None:
        """Change settings of links until `end` is called with the same ``number``; raises BadInput as `check` does."""
        links = tuple(links)
        self.check(what, links, settings)
        for link in links:
            self._for_a_time.setdefault(link, {})[number] = dict(settings)
            self._apply(link)

    def end(self, links: Iterable[Ends], number: int) -> None:
        """End the temporary change ``number``: restore the settings that links would have without it."""
        for link in links:
            del self._for_a_time[link][number]
            self._apply(link)

    def _now(self, link: Ends) -> Link:
        """Return a link's settings with all changes that are in effect now."""
        changed = dict(self._own.get(link, {}))
        for each in self._for_a_time.get(link, {}).values():
            changed |= each
        base = self._run.settings.links.get(link, self._run.settings.link)
        if not changed:
            return base
        last, made = self._made.get(link, ({}, base))
        if last.keys() != changed.keys() or any(value is not changed[name] for name, value in last.items()):
            made = _changed(base, changed)
            self._made[link] = changed, made
        return made

    def _check(self, what: str, link: Ends, before: Link, settings: Mapping[str, Any]) -> None:
        run, after = self._run, _changed(before, settings)
        self._must_be_wired(what)
        if run.settings.medium != "wires":
            for name in ("rate", "queue", "queue_bits"):
                if getattr(after, name) != getattr(before, name):
                    raise BadInput(f"{what}: {name} must be left out with medium = 'radio', which has one transmitter")
        after.reliability_model.resend_after(after.latency_model, run.settings.round_period)
        if after.rate != before.rate:
            for rate in (before.rate, after.rate):
                if isinstance(rate, Rate):
                    raise BadInput(f"{what}: rate must be a number before and after a change, not {rate!r}")
            if before.budget is not None:
                raise BadInput(f"{what}: rate must stay on a link with a budget, whose frames wait for both")
        if run.node is not None:
            run.node.check_change(what, link, before, after)

    def _apply(self, link: Ends) -> None:
        """Apply a link's current settings to its outbox, and move the arrivals of frames in flight accordingly."""
        run, (sender, receiver), after = self._run, link, self._now(link)
        outbox = run.outboxes.get(sender)
        # Without an outbox here, the sender is in another worker, which makes this change itself.
        if outbox is None or outbox.settings_of(receiver) is after:
            return
        shifts = outbox.change_link(receiver, after, self._last_arrival(link, after))
        if shifts:
            self._move_arrivals(link, shifts, after.fifo)

    def _last_arrival(self, link: Ends, after: Link) -> float | None:
        """Return the latest arrival (s) in flight if broadcasts with the new latency could overtake it, else None."""
        run, (sender, receiver) = self._run, link
        outbox = run.outboxes[sender]
        if not after.fifo or outbox.settings_of(receiver).latency_model is after.latency_model:
            return None
        if not outbox.draws_together(receiver):
            return None
        inbox, number = run.inboxes[receiver], run.link_number(*link)
        entries = inbox.withdraw(number)
        for entry in entries:
            inbox.arrivals.push(*entry)
        return max((entry[0] for entry in entries), default=0.0)

    def _move_arrivals(self, link: Ends, shifts: list[Shift], fifo: bool) -> None:
        """Shift the arrival of each frame in flight by as much as its departure was shifted."""
        run, (sender, receiver) = self._run, link
        inbox, tally, number, now = run.inboxes[receiver], run.shared.tally, run.link_number(*link), run.loop.now()
        numbers, mask, last = [shift[0] for shift in shifts], (1 << tally.shift) - 1, 0.0
        for time, key, kind, frame in inbox.withdraw(number):
            # A duplicate has a number between the original's number and the number of the link's next frame.
            place = bisect_right(numbers, key & mask) - 1
            moved = time
            if place >= 0:
                transmission, shift, start, bits = shifts[place]
                moved = max(time + shift, now)
                if tally.keeps and start > -math.inf and key & mask != transmission:
                    tally.left(start, key, transmission, bits)
            last = max(last, moved)
            inbox.arrivals.push(last if fifo else moved, key, kind, frame)
        if fifo:
            run.outboxes[sender].reset_order(receiver, last)
        for transmission, _, start, bits in shifts if tally.keeps else ():
            if start > -math.inf:
                tally.left(start, (number << tally.shift) + transmission, transmission, bits)
        inbox.watch()

    # --- holding and dropping -----------------------------------------------------------------------------------------

    def check_wired(self, what: str) -> None:
        """Raise BadInput if frames in flight cannot be held or dropped on this medium; ``what`` names the change."""
        self._must_be_wired(what)
        if self._run.node is not None:
            self._run.node.may_hold(what)

    def hold(self, links: Iterable[Ends], key: Any) -> None:
        """Delay frames that arrive over links until every hold of the link is released."""
        for link in links:
            holders = self._holds.setdefault(link, {})
            if not holders:
                self._set_hold(link, on=True)
            holders[key] = None

    def release(self, links: Iterable[Ends], key: Any) -> None:
        """Undo a `hold` with the same key."""
        for link in links:
            holders = self._holds.get(link, {})
            if key in holders:
                del holders[key]
                if not holders:
                    self._set_hold(link, on=False)

    def _set_hold(self, link: Ends, on: bool) -> None:
        # If the receiver is in another worker, that worker holds the frames.
        if link[1] in self._run.inboxes:
            self._run.inboxes[link[1]].hold(self._run.link_number(*link), on)

    def drop(self, links: Iterable[Ends]) -> None:
        """Count as lost, and discard, the frames that links have accepted and that have not arrived yet."""
        run = self._run
        tally, now = run.shared.tally, run.loop.now()
        for sender, receiver in links:
            number, outbox = run.link_number(sender, receiver), run.outboxes.get(sender)
            entries = []
            if receiver in run.inboxes:
                inbox = run.inboxes[receiver]
                entries = inbox.withdraw(number) + inbox.withdraw_held(number)
            elif outbox is not None:
                # The receiver is in another worker, which drops the frames sent before the last exchange. Drop the
                # later ones here.
                entries = withdraw(outbox.arrivals_at(receiver), number, tally.shift, now)
            for _, key, kind, _ in entries:
                tally.ended(now, key, kind, LOST)
            if outbox is not None:
                outbox.clear_link(receiver)

    def _must_be_wired(self, what: str) -> None:
        if isinstance(self._run.settings.medium, Radio):
            raise BadInput(f"{what}: must be left out on a netsim.Radio, whose frames are on the air of all nodes")


def _changed(link: Link, settings: Mapping[str, Any]) -> Link:
    """Return a link with changed settings; without a rate or budget no frame waits, so it gets no queue limit."""
    given: dict[str, Any] = dict(settings)
    if given.get("rate") == math.inf:
        given["rate"] = None
    if given.get("rate", link.rate) is None and link.budget is None:
        given |= {"queue": None, "queue_bits": None}
    return replace(link, **given)
