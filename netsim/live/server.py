"""Serve live views of a program's successive runs to browsers on this machine only.

The server listens on the loopback interface. Its address contains an unguessable token. The host in a request must be
the loopback, so that a page of another site cannot reach the server under another host name (DNS rebinding).
"""

import json
import re
import secrets
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from netsim.accounting.run_metadata import RunMetadata
from netsim.engine.observers import Viewer
from netsim.errors import NetsimError, one_line
from netsim.live.view import RunView
from netsim.network import Network
from netsim.replay.frames import MOST
from netsim.replay.html import as_json
from netsim.replay.render import About
from netsim.run import Run
from netsim.util import check

__all__ = ["Answer", "Loopback", "ViewServer", "live_view"]

# If there is no request for this many real seconds, no page counts as open; a page in a hidden tab sends a request once
# a minute.
_PAGE_TIMEOUT = 90.0

# An open, visible page sends a request within this many real seconds.
_ABRUPT = 2.0

_WAITING = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    '<link rel="icon" href="data:,"><title>netsim</title><main><h1>netsim</h1>'
    "<p>The first run has not begun yet …</p></main><script>setTimeout(() => location.reload(), 1000)</script></html>"
)

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Answer = tuple[HTTPStatus, str, str]
"""(status, content type, body) of a response; for a redirection, the second item is the new location."""


@contextmanager
def live_view(
    network: Network,
    *,
    title: str = "A run of netsim",
    pace: float | None = None,
    most: int = MOST,
    browser: bool = True,
) -> "Iterator[ViewServer]":
    """Show the runs of a network in the browser while they are in progress, without changing them.

    Parameters
    ----------
    network : Network
        The network whose runs within the block are shown.
    title : str
        The title of the page.
    pace : float, optional
        Simulated seconds that the page shows per second, constantly. By default the pace varies (`netsim.replay.film`).
    most : int
        Maximum number of frames that the page keeps; the oldest are dropped.
    browser : bool
        Whether to open the browser; the address is printed in any case.

    Yields
    ------
    ViewServer
        The server; its ``address`` is the address of the page.

    Raises
    ------
    BadInput
        If an argument is invalid.
    NetsimError
        If there is no free port.

    Notes ----- The end of the block waits until the page has received the whole run. 90 s without a request, or a
    Ctrl-C, end the wait.
    """
    check.instance("network", network, Network, "a netsim.Network")
    with ViewServer(pace=pace, most=most, browser=browser) as server:
        network.show_to(server.viewer(About(title)))
        try:
            yield server
        finally:
            network.show_to(None)


class ViewServer(AbstractContextManager["ViewServer"]):
    """Serves the views of runs at ``address``, in threads that do not keep the program alive.

    The end of its context waits until the pages have received all runs completely; after an error it waits at most a
    moment. The arguments are those of `live_view`. ``report`` is called with lines of text for the user, and may raise
    errors.
    """

    def __init__(
        self,
        *,
        pace: float | None = None,
        most: int = MOST,
        report: Callable[[str], None] = print,
        browser: bool = True,
    ) -> None:
        self._pace = None if pace is None else check.finite("pace", pace, above=0)
        self._most = check.integer("most", most, low=1)
        self._report = report
        self._views: list[RunView] = []
        self._over = self._answered_over = False
        self._asked = time.monotonic()
        self._http = Loopback("watch", self._answer)
        self.address = self._http.address
        report(f"watch it at {self.address}")
        if check.flag("browser", browser):
            with suppress(webbrowser.Error):
                webbrowser.open(self.address)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._over = True
        try:
            with suppress(KeyboardInterrupt):
                if error is None:
                    self._wait()
                else:
                    # Let an open page receive the end of the run.
                    self._serve_until(self._is_fetched)
        finally:
            self._http.close()

    def viewer(self, about: About, length: float | None = None) -> Viewer:
        """Return a viewer for `Network.show_to`; ``length`` is the runs' duration in simulated seconds, if known."""
        return partial(self._add, about, length)

    def _add(self, about: About, length: float | None, run: Run, scene: RunMetadata) -> RunView:
        """Create and return the view of a run that begins."""
        # Limit the memory: all earlier runs together keep at most as many frames as one run.
        room = self._most
        for view in reversed(self._views):
            view.forget(view.held - room)
            room -= view.held
        self._views.append(RunView(len(self._views) + 1, about, self._most, self._pace, length, run, scene))
        return self._views[-1]

    def _wait(self) -> None:
        """Serve until pages have received all runs completely, or no page has sent a request for a long time."""
        self._asked = time.monotonic()
        if not self._is_fetched():
            self._report("the page is served until it has all of it; Ctrl-C ends that")
        while not self._is_fetched() and time.monotonic() - self._asked < _PAGE_TIMEOUT:
            time.sleep(0.05)
        # Wait for one more request of an open page, whose answer says that the program is over.
        self._serve_until(lambda: self._answered_over)

    def _serve_until(self, is_done: Callable[[], bool]) -> None:
        """Serve an open page until ``is_done()`` is true, but for at most `_ABRUPT` seconds."""
        last = time.monotonic()
        while not is_done() and last - self._asked < _ABRUPT and time.monotonic() - last < _ABRUPT:
            time.sleep(0.05)

    def _is_fetched(self) -> bool:
        return all(view.fetched for view in self._views)

    def _answer(self, rest: str) -> Answer | None:
        """Return the response to an address after its token, such as ``1/more?since=…``; None means "not found"."""
        self._asked = time.monotonic()
        views = list(self._views)
        if not rest:
            return (HTTPStatus.FOUND, "1/", "") if views else (HTTPStatus.OK, "text/html", _WAITING)
        found = re.fullmatch(r"([1-9]\d{0,8})/(more\?since=(.*))?", rest, re.ASCII)
        if found is None or int(found[1]) > len(views):
            return None
        view, since = views[int(found[1]) - 1], found[3]
        if since is None:
            return HTTPStatus.OK, "text/html", view.page
        if not re.fullmatch(r"\d{1,15}(\.\d{1,15}){4}", since, re.ASCII):
            return HTTPStatus.BAD_REQUEST, "text/plain", "since: must be five whole numbers"
        self._answered_over = self._over
        runs = [[each.number, each.about.title] for each in views]
        news = view.news([int(each) for each in since.split(".")])
        return HTTPStatus.OK, "application/json", as_json(news | {"runs": runs, "over": self._over})


class Loopback(ThreadingHTTPServer):
    """HTTP server for this machine only, at an address with a secret token; it runs in separate threads until closed.

    Parameters
    ----------
    name : str
        The name of the server in error messages.
    answer : callable
        Returns the response to a GET request for the address after the token; None means "not found".
    act : callable, optional
        Returns the response to a POST request, given the address after the token and the JSON value. Requests from
        other sites' pages are rejected.

    Attributes
    ----------
    address : str
        The address, which ends with the token and a slash.

    Raises
    ------
    NetsimError
        If there is no free port.
    """

    daemon_threads = True
    # Do not let the closing of the server wait for threads that wait for a browser.
    block_on_close = False

    def __init__(
        self,
        name: str,
        answer: Callable[[str], Answer | None],
        act: Callable[[str, Any], Answer | None] | None = None,
    ) -> None:
        try:
            super().__init__(("127.0.0.1", 0), _Handler)
        except OSError as error:
            raise NetsimError(f"{name}: 127.0.0.1 has no free port ({error.strerror or one_line(error)})") from None
        port = self.server_address[1]
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.token, self.answer, self.act = secrets.token_urlsafe(24), answer, act
        self.address = f"http://127.0.0.1:{port}/{self.token}/"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors, such as a closed browser, because they do not concern the run."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "netsim", ""
    # Seconds without data from the browser after which a connection is closed.
    timeout = 60
    server: Loopback

    def do_GET(self) -> None:
        if (rest := self._behind_token()) is not None:
            self._reply(self.server.answer(rest))

    def do_POST(self) -> None:
        # Close the connection after the response: if the body was not read, it would be parsed as the next request.
        self.close_connection = True
        size = self.headers.get("Content-Length", "")
        if self.server.act is None:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED)
        elif (rest := self._behind_token()) is None:
            pass
        elif self.headers.get_all("Origin", []) != [f"http://{self.headers['Host']}"]:
            self.send_error(HTTPStatus.FORBIDDEN, "not from a page of this server")
        elif self.headers.get_content_type() != "application/json" or not re.fullmatch(r"\d{1,6}", size, re.ASCII):
            self.send_error(HTTPStatus.BAD_REQUEST, "must be JSON of less than a megabyte")
        else:
            try:
                asked = json.loads(self.rfile.read(int(size)))
            except (ValueError, RecursionError):
                self.send_error(HTTPStatus.BAD_REQUEST, "must be JSON")
            else:
                self._reply(self.server.act(rest, asked))

    def _behind_token(self) -> str | None:
        """Return the address after the token; if the host or token is wrong, refuse the request and return None."""
        token, slash, rest = self.path.removeprefix("/").partition("/")
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "not the name of this machine's loopback")
        elif not slash or not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            return rest
        return None

    def _reply(self, answer: Answer | None) -> None:
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        status, kind, text = answer
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        if status == HTTPStatus.FOUND:
            self.send_header("Location", kind)
        else:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        """Add the headers that all responses have, including errors."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""
