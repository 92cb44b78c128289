"""A small server on this machine, for the pages of one session and nobody else.

It listens on the loopback only. The address holds a token that cannot be guessed, and the name that a request asks for
must be that of the loopback, so that no page of another site reaches it by a name of its own.
"""

import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from netsim.errors import NetsimError, one_line

__all__ = ["Answer", "Server"]

Answer = tuple[HTTPStatus, str, str]
"""A status, a type of content (or, of a redirection, where to), and a text."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Server:
    """Serves until it is closed, in threads that do not keep the program from ending.

    Parameters
    ----------
    answer : callable
        Given what stands behind the token in an address (``1/more?since=…``), it returns an `Answer`, or None if
        there is nothing.

    Attributes
    ----------
    address : str
        Where it is.

    Raises
    ------
    NetsimError
        If no port can be had.
    """

    def __init__(self, answer: Callable[[str], Answer | None]) -> None:
        self.token = secrets.token_urlsafe(24)
        try:
            self._server = _Server(("127.0.0.1", 0), _Handler)
        except OSError as error:
            raise NetsimError(f"watch: no port of 127.0.0.1 can be had ({error.strerror or one_line(error)})") from None
        port = self._server.server_address[1]
        self._server.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._server.token, self._server.answer = self.token, answer
        self.address = f"http://127.0.0.1:{port}/{self.token}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Threads that wait for a browser that says nothing more are not waited for.
    block_on_close = False
    hosts: set[str]
    token: str
    answer: Callable[[str], Answer | None]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that has gone is no matter of the run's."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "netsim", ""
    # Of a browser that says nothing, in seconds.
    timeout = 60
    server: _Server

    def do_GET(self) -> None:
        """Answer."""
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._reply((HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "not the name of this machine's loopback"))
            return
        token, slash, rest = self.path.removeprefix("/").partition("/")
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        found = self.server.answer(rest) if known and slash else None
        self._reply(found or (HTTPStatus.NOT_FOUND, "text/plain", "nothing here"))

    def _reply(self, answer: Answer) -> None:
        status, kind, text = answer
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        if status == HTTPStatus.FOUND:
            self.send_header("Location", kind)
        else:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""
