"""All runs of a program that are shown, one after the other, at one address."""

import time
import urllib.parse
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus

from netsim.accounting.scene import Scene
from netsim.errors import NetsimError
from netsim.live.server import Answer, Server
from netsim.live.show import Show
from netsim.network import Network
from netsim.replay.frames import MOST
from netsim.replay.html import as_json
from netsim.replay.render import About
from netsim.run import Run
from netsim.util import check

__all__ = ["Session", "live_view"]

# Real seconds without a question after which nobody is taken to look; a page that is hidden asks once a minute.
_PATIENCE = 90.0

# Real seconds within which a page that is open asks.
_ABRUPT = 2.0

_WAITING = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    '<meta http-equiv="refresh" content="1"><link rel="icon" href="data:,"><title>netsim</title>'
    "<p>The first run has not begun yet …</p></html>"
)


class Session:
    """The runs that are shown, and the server of their pages.

    As a context: at its end the pages are served until they have all of it (`wait`), after an error only for a moment.

    Parameters
    ----------
    pace : float, optional
        Simulated seconds that pages show in a second; default: as suits each run.
    most : int
        Frames that are kept to be shown: the newest.
    tell : callable
        Is given lines for the user.
    browser : bool
        Whether to open the user's browser.

    Attributes
    ----------
    address : str
        Where the pages are.

    Raises
    ------
    BadInput
        If an argument cannot be used.
    NetsimError
        If no port can be had.
    """

    def __init__(
        self,
        *,
        pace: float | None = None,
        most: int = MOST,
        tell: Callable[[str], None] = print,
        browser: bool = True,
    ) -> None:
        self._pace = None if pace is None else check.finite("pace", pace, above=0)
        self._most = check.integer("most", most, low=1)
        self._tell = tell
        self._shows: list[Show] = []
        self._over = self._said_over = False
        self._asked = time.monotonic()
        self._server = Server(self._answer)
        self.address = self._server.address
        tell(f"watch it at {self.address}")
        if check.flag("browser", browser):
            with suppress(webbrowser.Error):
                webbrowser.open(self.address)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if error is None:
                self.wait()
            else:
                self.give_up()
        finally:
            self._server.close()

    def show(self, about: About, length: float | None = None) -> Show:
        """Return who shows the next run, which lasts ``length`` simulated seconds as far as is known."""
        # What is kept of all that came before is no more than of one.
        earlier = [each.reel for each in self._shows if each.reel is not None]
        room = self._most
        for reel in reversed(earlier):
            reel.forget(reel.held - room)
            room -= reel.held
        show = Show(len(self._shows) + 1, about, self._most, self._pace, length)
        self._shows.append(show)
        return show

    def wait(self) -> None:
        """Serve until some page has all of every run, until nobody has asked for long, or until a Ctrl-C."""
        self._over = True
        self._asked = time.monotonic()
        if not self._is_fetched():
            self._tell("the page is served until it has all of it; Ctrl-C ends that")
        with suppress(KeyboardInterrupt):
            while not self._is_fetched() and time.monotonic() - self._asked < _PATIENCE:
                time.sleep(0.05)
            # A page that is open asks once more, and learns that there is nothing more to ask.
            last = time.monotonic()
            while not self._said_over and last - self._asked < _ABRUPT and time.monotonic() - last < _ABRUPT:
                time.sleep(0.05)

    def give_up(self) -> None:
        """After an error, serve for a moment more: a page that is open learns how it ended."""
        self._over = True
        last = time.monotonic()
        with suppress(KeyboardInterrupt):
            while last - self._asked < _ABRUPT and not self._is_fetched() and time.monotonic() - last < _ABRUPT:
                time.sleep(0.05)

    def _is_fetched(self) -> bool:
        return all(show.reel.fetched for show in self._shows if show.reel is not None)

    def _answer(self, rest: str) -> Answer | None:
        self._asked = time.monotonic()
        path, _, query = rest.partition("?")
        number, _, what = path.partition("/")
        shows = [show for show in self._shows if show.reel is not None]
        if not rest:
            return (HTTPStatus.FOUND, "1/", "") if shows else (HTTPStatus.OK, "text/html", _WAITING)
        show = next((each for each in shows if str(each.number) == number), None)
        if show is None or what not in ("", "more"):
            return None
        if not what:
            return HTTPStatus.OK, "text/html", show.page()
        since = _numbers(urllib.parse.parse_qs(query).get("since", [""])[-1])
        if since is None:
            return HTTPStatus.BAD_REQUEST, "text/plain", "since: must be five whole numbers"
        self._said_over = self._over
        runs = [[each.number, each.about.title] for each in shows]
        return HTTPStatus.OK, "application/json", as_json(show.news(since) | {"runs": runs, "over": self._over})


def _numbers(text: str) -> list[int] | None:
    parts = text.split(".")
    fits = len(parts) == 5 and all(each.isascii() and each.isdigit() and len(each) < 16 for each in parts)
    return [int(each) for each in parts] if fits else None


@contextmanager
def live_view(
    network: Network,
    *,
    title: str = "A run of netsim",
    pace: float | None = None,
    most: int = MOST,
    browser: bool = True,
) -> Iterator[Session]:
    """Show the runs of a network in the browser while they go on; nothing in them changes.

    Parameters
    ----------
    network : Network
        Whose runs, within the block.
    title : str
        What stands above them.
    pace : float, optional
        Simulated seconds that the page shows in a second; default: two rounds.
    most : int
        Frames that the page keeps: the newest.
    browser : bool
        Whether to open the browser; the address is printed in any case.

    Yields
    ------
    Session
        Its ``address`` is that of the page.

    Raises
    ------
    BadInput
        If an argument cannot be used.
    NetsimError
        If no port can be had.

    Notes
    -----
    The block's end waits until the page has all of it, but not for ever: 90 s without a question, or a Ctrl-C, end it.
    """
    with Session(pace=pace, most=most, browser=browser) as session:
        network.show_to(_Each(session, About(title)))
        try:
            yield session
        finally:
            network.show_to(None)


class _Each:
    """Shows each run of a network."""

    def __init__(self, session: Session, about: About) -> None:
        self._session, self._about = session, about
        self._show: Show

    def begin(self, run: Run, scene: Scene) -> None:
        """A run begins."""
        self._show = self._session.show(self._about)
        self._show.begin(run, scene)

    def look(self, scene: Scene) -> None:
        """Take up what happened since the last look."""
        self._show.look(scene)

    def end(self, scene: Scene, error: NetsimError | None) -> None:
        """Take up the rest."""
        self._show.end(scene, error)
