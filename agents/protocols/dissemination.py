"""Dissemination of an image to all nodes: Trickle advertises, neighbours send pages, as in Deluge."""

import asyncio
import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import netsim
from netsim.agents.papers import DELUGE
from netsim.agents.protocols.kinds import Form, Speaker, fields, is_name, whole
from netsim.agents.protocols.together import must_agree
from netsim.agents.protocols.trickle import Trickle, checked
from netsim.draw import Kind, Number
from netsim.util import check

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Dissemination"]

ADVERT, REQUEST, PACKET = "v", "vr", "vp"

_MOST = 2**32 - 1  # versions, bytes and pages
_MOST_PACKETS = 64  # of a page: the missing ones are the bits of one integer
_LONGEST = 1024  # bytes of a packet
_TRIES = 4  # requests of a page to a neighbour that does not answer
_QUIET = 16  # pauses without a packet of the page before it is requested again


class Dissemination(Speaker):
    """Deluge: the image of the highest version spreads from neighbour to neighbour, page by page.

    * A node advertises its version and how many pages it has, by `Trickle`. A difference from a neighbour's
    advertisement resets the timer, so an image spreads in seconds, and nodes that agree are nearly silent. * A node
    that hears of more pages than it has requests the missing packets of its next page from the neighbour. It waits
    while it hears packets of this page that others requested, and repeats its request for lost ones. * A node that gets
    a request broadcasts these packets, with pauses. It skips those that it hears from another node. Pages are fetched
    in order, so a node serves its pages while it fetches the next ones.

    Parameters
    ----------
    image : bytes, optional
        The image that this node begins with; None: it has none.
    version : int
        The version of ``image``, 1 or higher.
    packet : int
        Bytes of a packet, the same at all nodes.
    page : int
        Packets of a page, at most 64, the same at all nodes.
    pause : float
        Mean seconds between two packets of a node.
    imin : float
        The Trickle timer's Imin in seconds.
    doublings : int
        How often the timer's interval may double.
    k : int
        The Trickle timer's redundancy constant.

    Attributes
    ----------
    version : int
        The highest version that the node knows of; 0: none.
    image : bytes or None
        The image of this version; None until it is complete.
    have : int
        How many of its pages are complete.
    completed_at : float or None
        When the image was complete, by the node's own clock (s).
    adverts, requests, packets : int
        The messages that this node has sent.
    foreign : Counter
        The number of received frames that were ignored, by kind.

    Notes
    -----
    Source: J. W. Hui and D. Culler, "The dynamic behavior of a data dissemination protocol for network programming at
    scale", SenSys 2004. A page is served at once, without the paper's rounds and without preferring lower ones. Only
    one node may publish: two images published at once with the same version would mix.
    """

    draw: ClassVar = {"have": Number(), ADVERT: Kind("advert"), REQUEST: Kind("request"), PACKET: Kind("packet")}

    paper: ClassVar[str] = DELUGE
    kinds: ClassVar[Mapping[str, Form]] = {
        ADVERT: fields(whole(1, _MOST), whole(0, _MOST), whole(0, _MOST)),
        REQUEST: fields(is_name, whole(1, _MOST), whole(0, _MOST), whole(1, 2**_MOST_PACKETS - 1)),
        PACKET: fields(whole(1, _MOST), whole(0, _MOST), whole(0, _MOST_PACKETS - 1), lambda data: type(data) is bytes),
    }

    def __init__(
        self,
        image: bytes | None = None,
        *,
        version: int = 1,
        packet: int = 64,
        page: int = 48,
        pause: float = 0.02,
        imin: float = 2.0,
        doublings: int = 5,
        k: int = 1,
    ) -> None:
        super().__init__()
        self.packet = check.integer("packet", packet, low=1, high=_LONGEST)
        self.page = check.integer("page", page, low=1, high=_MOST_PACKETS)
        self.pause = check.finite("pause", pause, above=0)
        self.imin, self.doublings, self.k = checked(imin, doublings, k)
        check.instance("image", image, bytes, "bytes, or None", optional=True)
        self.version = self.have = self._size = 0
        self.image: bytes | None = None
        self.completed_at: float | None = None
        self._pages: list[bytes] = []
        self._arrived: dict[int, bytes] = {}
        # The pages that neighbours have, by name; the packets to send, by page.
        self._offers: dict[Hashable, int] = {}
        self._wanted: dict[int, int] = {}
        self.adverts = self.requests = self.packets = 0
        version = check.integer("version", version, low=1, high=_MOST)
        if image is not None:
            self._adopt(version, image)
            self.completed_at = 0.0

    @classmethod
    def _check_together(cls, agents: "Mapping[Any, netsim.Agent]", graph: "nx.Graph[Any]") -> None:
        must_agree(agents, "packet", "page")

    # --- for the application ------------------------------------------------------------------------------------------

    def publish(self, image: bytes) -> None:
        """Begin to disseminate another image, as the next version."""
        check.instance("image", image, bytes, "bytes")
        self._adopt(self.version + 1, image)
        self.completed_at = self.now
        self.trickle.reset()

    def _adopt(self, version: int, image: bytes) -> None:
        self.version, self.image, self._size, self._arrived = version, image, len(image), {}
        self._offers, self._wanted = {}, {}
        length = self.packet * self.page
        self._pages = [image[start : start + length] for start in range(0, len(image), length)]
        self.have = len(self._pages)

    @property
    def pages(self) -> int:
        """How many pages the image has."""
        return math.ceil(self._size / (self.packet * self.page))

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Advertise, fetch and serve."""
        self.trickle = Trickle(self._advertise, self.rng, imin=self.imin, doublings=self.doublings, k=self.k)
        self._offers, self._wanted = {}, {}
        # The time (s) at which a packet of the page being fetched was last requested or sent.
        self._heard_at = -math.inf
        self._offered, self._asked = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for each in (self.trickle.run(), self._listen(), self._fetch(), self._serve()):
                group.create_task(each)

    async def _advertise(self) -> None:
        if self.version:
            self.adverts += 1
            await self.broadcast(ADVERT, [self.version, self._size, self.have])

    async def _listen(self) -> None:
        async for frame in self.inbox:
            if self.is_own(frame):
                {ADVERT: self._hear_advert, REQUEST: self._hear_request, PACKET: self._hear_packet}[frame.kind](frame)

    def _hear_advert(self, frame: netsim.Frame) -> None:
        version, size, have = frame.payload
        if version > self.version:
            self._adopt(version, b"")
            self.image, self._size, self.completed_at = None, size, None
            if not size:
                self._complete()
        if (version, have) == (self.version, self.have):
            self.trickle.consistent()
        else:
            self.trickle.reset()
        if version == self.version:
            self._offers[frame.sender] = have
            self._wake()

    def _wake(self) -> None:
        if any(have > self.have for have in self._offers.values()):
            self._offered.set()

    # --- fetching -----------------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """Request the next page while a neighbour has it."""
        while True:
            self._offered.clear()
            self._wake()
            await self._offered.wait()
            # Random delays: neighbours that heard the same advertisement request at different times, or hear another's
            # packets.
            await asyncio.sleep(self.rng.uniform(0, _QUIET * self.pause))
            page, tries = (self.version, self.have), 0
            while (self.version, self.have) == page and tries < _TRIES:
                left = self._heard_at + _QUIET * self.pause - self.now
                if left > 0:
                    await asyncio.sleep(left + self.rng.uniform(0, self.pause))
                    continue
                sources = [node for node, have in self._offers.items() if have > self.have]
                if not sources:
                    break
                tries += 1
                self.requests += 1
                self._heard_at = self.now
                source = sources[int(self.rng.integers(len(sources)))]
                await self.broadcast(REQUEST, [source, self.version, self.have, self._missing()])
            if (self.version, self.have) == page:
                # The neighbours do not answer: wait for new advertisements.
                self._offers.clear()

    def _count(self, page: int) -> int:
        """Return how many packets a page has."""
        length = min(self._size - page * self.packet * self.page, self.packet * self.page)
        return math.ceil(length / self.packet)

    def _missing(self) -> int:
        """Return the packets of the next page that have not arrived, as bits."""
        return sum(1 << number for number in range(self._count(self.have)) if number not in self._arrived)

    def _hear_packet(self, frame: netsim.Frame) -> None:
        version, page, number, data = frame.payload
        if version != self.version:
            if version < self.version:
                self.trickle.reset()
            return
        if page in self._wanted:
            self._wanted[page] &= ~(1 << number)
        if page != self.have or number >= self._count(page):
            return
        self._heard_at = self.now
        start = page * self.packet * self.page + number * self.packet
        if len(data) != min(self.packet, self._size - start):
            self.foreign[frame.kind] += 1
            return
        self._arrived[number] = data
        if not self._missing():
            self._pages.append(b"".join(self._arrived[each] for each in range(self._count(page))))
            self._arrived, self.have, self._heard_at = {}, self.have + 1, -math.inf
            self.trickle.reset()
            if self.have == self.pages:
                self._complete()

    def _complete(self) -> None:
        self.image, self.completed_at = b"".join(self._pages), self.now

    # --- serving ------------------------------------------------------------------------------------------------------

    def _hear_request(self, frame: netsim.Frame) -> None:
        source, version, page, missing = frame.payload
        if version != self.version:
            self.trickle.reset()
            return
        if page == self.have:
            # The requested packets will reach this node, too.
            self._heard_at = self.now
        if source == self.name and page < self.have:
            self._wanted[page] = self._wanted.get(page, 0) | missing & (1 << self._count(page)) - 1
            self._asked.set()

    async def _serve(self) -> None:
        """Send the packets that neighbours want, the lowest page first."""
        while True:
            self._asked.clear()
            self._wanted = {page: wanted for page, wanted in self._wanted.items() if wanted}
            if not self._wanted:
                await self._asked.wait()
                continue
            page = min(self._wanted)
            number = (self._wanted[page] & -self._wanted[page]).bit_length() - 1
            self._wanted[page] &= ~(1 << number)
            data = self._pages[page][number * self.packet : (number + 1) * self.packet]
            self.packets += 1
            await self.broadcast(PACKET, [self.version, page, number, data])
            await asyncio.sleep(self.rng.uniform(0.5, 1.5) * self.pause)
