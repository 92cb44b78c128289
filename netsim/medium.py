"""A shared radio: transmissions that overlap at a receiver destroy each other there."""

from netsim.inbox import Inbox


class Air:
    """What each inbox hears: who is on the air from when to when.

    Pure ALOHA as far as the medium goes: nobody listens before talking, and every neighbour's transmission interferes,
    whether or not its own frame would have been lost on the way.
    """

    def __init__(self) -> None:
        self._heard: dict[int, list[tuple[float, float, int]]] = {}

    def hear(self, receiver: int, inbox: Inbox, now: float, start: float, end: float, key: int) -> bool:
        """Put a transmission on the air at one receiver, from ``start`` to ``end`` (seconds); return whether it collides.

        Earlier ones that it overlaps are marked as collided, too.
        """
        on_air = [other for other in self._heard.get(receiver, ()) if other[1] > now]
        hit = {other[2] for other in on_air if other[0] < end and start < other[1]}
        inbox.collided |= hit
        on_air.append((start, end, key))
        self._heard[receiver] = on_air
        return bool(hit)
