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

_MOST = 2**32 - 1  # upper bound for versions, sizes in bytes, and page numbers
_MOST_PACKETS = 64  # per page: the set of missing packets is an integer of 64 bits
_LONGEST = 1024  # maximum size of a packet in bytes
_TRIES = 4  # requests for a page that remain unanswered before the node waits for new advertisements
_QUIET = 16  # a page is requested again after this many pauses without one of its packets


class Dissemination(Speaker):
    """Deluge: the image of the highest version spreads from neighbour to neighbour, page by page.

    * A `Trickle` timer advertises the node's version and its number of complete pages. A neighbour's advertisement that
      differs resets the timer. So an image spreads in seconds, and nodes that agree send very little.
    * If a neighbour advertises more pages than a node has, the node requests the missing packets of its next page from
      this neighbour. It waits while it receives packets of this page that others requested, and then requests the lost
      packets again.
    * A node that receives a request broadcasts the requested packets, with pauses. It skips a packet if it receives it
      from another node. Pages are fetched in order, so a node can serve its pages while it fetches the next page.

    Parameters
    ----------
    image : bytes, optional
        The image that this node has from the start; by default none.
    version : int
        The version of ``image``, 1 or higher.
    packet : int
        Number of bytes per packet, the same at all nodes.
    page : int
        Number of packets per page, at most 64, the same at all nodes.
    pause : float
        Mean seconds between two packets that a node sends.
    imin : float
        The Trickle timer's Imin in seconds.
    doublings : int
        How often the timer's interval may double.
    k : int
        The Trickle timer's redundancy constant.

    Attributes
    ----------
    version : int
        The highest version that the node knows; 0 before the first.
    image : bytes or None
        The image of this version; None until it is complete.
    have : int
        Number of complete pages of the image.
    completed_at : float or None
        The time (s) on the node's clock at which the image was complete.
    adverts, requests, packets : int
        Numbers of advertisements, requests and packets that this node has sent.
    foreign : Counter
        The number of received frames that were ignored, by kind.

    Notes
    -----
    Source: J. W. Hui and D. Culler, "The dynamic behavior of a data dissemination protocol for network programming at
    scale", SenSys 2004. Unlike in the paper, a node starts to serve a page immediately, without rounds, and does not
    wait for nodes that fetch lower pages. Only one node may publish: two images published at the same time with the
    same version would mix.
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
        # _offers: {neighbour: number of complete pages}; _wanted: {page: packets to send, as bits}.
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
        """Begin to disseminate a new image as the next version."""
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
        """The number of pages of the image."""
        return math.ceil(self._size / (self.packet * self.page))

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Advertise the version, fetch missing pages, and serve the neighbours' requests."""
        self.trickle = Trickle(self._advertise, self.rng, imin=self.imin, doublings=self.doublings, k=self.k)
        self._offers, self._wanted = {}, {}
        # The time (s) at which any node last requested or sent a packet of the page that this node is fetching.
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
            # A random delay: otherwise all neighbours that received the same advertisement would request it together.
            # With the delay, most receive the packets that the first of them requested.
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
                # No neighbour answered, so wait for new advertisements.
                self._offers.clear()

    def _count(self, page: int) -> int:
        """Return the number of packets of a page."""
        length = min(self._size - page * self.packet * self.page, self.packet * self.page)
        return math.ceil(length / self.packet)

    def _missing(self) -> int:
        """Return an integer whose bits mark the packets of the next page that have not arrived."""
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
        """Send the packets that neighbours have requested, the lowest page first."""
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
