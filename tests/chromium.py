"""A headless Chromium for tests, controlled by the DevTools protocol over two pipes: no server, port or package."""

import base64
import functools
import http.server
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    # Requests to other hosts fail, so that tests do not depend on the internet.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-pipe",
]

# Chromium reads from descriptor 3 and writes to 4, whereas Python's pipes get other numbers.
_SHIM = (
    "import os, sys; [os.dup2(int(a), b) for a, b in zip(sys.argv[1:3], (3, 4))]; os.execvp(sys.argv[3], sys.argv[3:])"
)


def program() -> str | None:
    """Return the path of a Chromium that can be controlled on this system, or None."""
    if sys.platform == "win32":
        return None
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One tab; ``output`` holds its console messages and errors, ``requested`` the URLs that it requested."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._buffer, self._number, self._session = b"", 0, ""
        self.output: list[str] = []
        self.requested: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Performance.enable", timeDomain="threadTicks")
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, seconds: float = 60.0, **parameters: Any) -> Any:
        """Call a command of the protocol, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + seconds
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _note(self, event: dict[str, Any]) -> None:
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.output.append(str(what["exceptionDetails"].get("exception", {}).get("description", what)))
        elif method == "Runtime.consoleAPICalled":
            self.output.append(" ".join(str(each.get("value")) for each in what["args"]))
        elif method == "Log.entryAdded":
            self.output.append(str(what["entry"]["text"]))
        elif method == "Network.requestWillBeSent":
            self.requested.append(str(what["request"]["url"]))

    def open(self, place: Path | str, ready: str = "window.replay && window.replay.ready") -> None:
        """Open a file or a URL, and wait until the JavaScript promise ``ready`` is fulfilled."""
        self.output.clear()
        self.requested.clear()
        url = place.resolve().as_uri() if isinstance(place, Path) else place
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + 60
        scheme = json.dumps(url.partition(":")[0] + ":")
        while not self.run(f"document.readyState === 'complete' && location.protocol === {scheme}"):
            assert time.monotonic() < deadline, "the page does not load"
            time.sleep(0.01)
        self.run(ready)

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"].get("exception", {}).get("description", done))
        return done["result"].get("value")

    def processor_ms(self) -> float:
        """Return the processor time (ms) of this page's main thread."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return 1e3 * next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")

    def look(self, width: int, height: int, scheme: str = "light") -> None:
        """Set the size of the window (px) and the preferred colour scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str, text: str = "") -> None:
        """Press and release a key."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Write a screenshot of the visible part, or of the whole page, as PNG."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the files of a folder on this machine; yield the address, which is valid within the context."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *values: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def browser() -> Iterator[Page]:
    """Start a Chromium with an empty profile, which ends with the context."""
    # imported here, because Windows has no fcntl
    import fcntl

    found = program()
    assert found is not None
    ours, theirs = os.pipe(), os.pipe()
    # Numbers from 10 on, so that the shim does not overwrite one before it has copied it.
    ends = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (ours[0], theirs[1])]
    with tempfile.TemporaryDirectory(prefix="netsim-chromium-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-S", "-c", _SHIM, *map(str, ends), found, *FLAGS, f"--user-data-dir={folder}"]
        process = subprocess.Popen(command, pass_fds=ends, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for each in (*ends, ours[0], theirs[1]):
            os.close(each)
        page = None
        try:
            page = Page(ours[1], theirs[0])
            yield page
        finally:
            if page is not None:
                page._session = ""
                with suppress(OSError, EOFError, TimeoutError, RuntimeError):
                    page.call("Browser.close", seconds=5)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()
            os.close(ours[1])
            os.close(theirs[0])
