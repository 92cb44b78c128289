"""A shared radio: transmissions that overlap at a receiver destroy each other there."""

from netsim.transport.inbox import Inbox


class Air:
    """What each inbox hears: who is on the air from when to when.

    Pure ALOHA as far as the medium goes: nobody listens before talking, and every neighbour's transmission interferes,
    whether or not its own frame would have been lost on the way.
    """

    def __init__(self) -> None:
        self._heard: dict[int, list[tuple[float, float, list[int]]]] = {}

    def hear(self, receiver: int, inbox: Inbox, now: float, start: float, end: float) -> tuple[bool, list[int]]:
        """Put a transmission on the air at one receiver, from ``start`` to ``end`` (seconds).

        Earlier ones that it overlaps are marked as collided. Return whether there are any, and a list for the keys of
        those of its own copies that are under way to the inbox, which later ones may destroy.
        """
        on_air = [other for other in self._heard.get(receiver, ()) if other[1] > now]
        hit = [other for other in on_air if other[0] < end and start < other[1]]
        inbox.collided.update(key for _, _, keys in hit for key in keys)
        under_way: list[int] = []
        on_air.append((start, end, under_way))
        self._heard[receiver] = on_air
        return bool(hit), under_way
