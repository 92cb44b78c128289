"""Data sets are downloaded from a server on this machine, completely or not at all."""

import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from netsim import datasets
from netsim.datasets import preparation
from netsim.datasets.registry import UNTRIED
from netsim.datasets.store import where
from netsim.errors import BadInput, NetsimError
from netsim.links.measured import intel_lab, synthetic_lab
from netsim.scenarios.data.files import find_table
from netsim.scenarios.data.tables import load_table
from netsim.util import datafiles
from tests.command import ROOT, Done, call
from tests.netsim.datasets.originals import AIR, AIR_CSV, TABLES, air_xlsx, air_zip, zipped
from tests.parts import every

NAME = "airquality"
FILE = f"{NAME}.csv.gz"
DIGEST = hashlib.sha256(AIR.encode()).hexdigest()
CHILD = """
import dataclasses, sys
from netsim.__main__ import main
from netsim.datasets import SETS
address, digest, limit = sys.argv[1:]
SETS["airquality"] = dataclasses.replace(SETS["airquality"], addresses=(address,), sha256=digest)
if int(limit):
    import resource
    # Bytecode that is cut at the limit would be read by other processes.
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
sys.argv = ["netsim", "data", "get", "airquality"]
main()
"""


class Server(ThreadingHTTPServer):
    """Serves files by path. For the paths in ``cut`` it sends half the file, and the rest once ``goes_on`` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cut = False
        self.is_half, self.goes_on = threading.Event(), threading.Event()

    def address(self, name: str, data: bytes) -> str:
        """Serve a file, and return its URL."""
        self.files[f"/{name}"] = data
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.asked.append(self.path)
        data = server.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        half = len(data) // 2
        self.wfile.write(data[:half])
        self.wfile.flush()
        server.is_half.set()
        server.goes_on.wait(60)
        if not server.cut:
            self.wfile.write(data[half:])

    def log_message(self, format: str, *words: Any) -> None:
        """Suppress the server's log."""


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    found.goes_on.set()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.goes_on.set()
    found.shutdown()
    found.server_close()
    thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    monkeypatch.setenv("NETSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def served(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Serve an original of airquality; its registry entry has this server's URL and the prepared table's digest."""
    enter(monkeypatch, server.address("air+quality.zip", air_zip()))
    return server


def enter(monkeypatch: pytest.MonkeyPatch, address: str, digest: str = DIGEST) -> None:
    known = dataclasses.replace(datasets.SETS[NAME], addresses=(address,), sha256=digest)
    monkeypatch.setitem(datasets.SETS, NAME, known)


def get(tmp_path: Path, *words: str) -> Done:
    return call("data", "get", NAME, *words, cwd=tmp_path)


def left(cache: Path) -> set[str]:
    """Return the names of the files in the cache, except the lock file."""
    found = {path.name for path in cache.iterdir()} if cache.exists() else set()
    return found - {f".{NAME}.lock"}


def test_a_set_is_fetched_prepared_checked_and_found(served: Server, cache: Path, tmp_path: Path) -> None:
    assert NAME not in call("data", "list", cwd=tmp_path).stdout.partition("netsim data get")[0]
    done = get(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{NAME}: {datasets.SETS[NAME].addresses[0]}",
        f"{NAME}: {cache / FILE}, SHA-256 as it must be",
        "licence: CC BY 4.0 (UCI)",
        "cite: Vito, Air Quality, UCI Machine Learning Repository, 2008, doi 10.24432/C59K5F",
    ]
    assert left(cache) == {FILE}
    assert load_table(NAME).target.tolist() == [1267.5, 972.25]
    assert call("data", "path", NAME, cwd=tmp_path).stdout == f"{cache / FILE}\n"
    assert f"{cache / FILE}" in call("data", "list", cwd=tmp_path).stdout.partition("netsim data get")[0]
    again = get(tmp_path)
    assert again.stdout.startswith(f"{NAME}: is here, {cache / FILE}\n")
    assert len(served.asked) == 1


def test_the_order_is_a_path_then_netsim_data_then_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (cache, tmp_path / "own", tmp_path / "data"):
        folder.mkdir()
        (folder / "rows.csv").write_text("a,b\n1,2\n3,5\n")
    assert find_table("rows") == cache / "rows.csv"
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path / "data"))
    assert find_table("rows") == tmp_path / "data" / "rows.csv"
    assert find_table(str(tmp_path / "own" / "rows.csv")) == tmp_path / "own" / "rows.csv"


def test_files_of_the_cache_are_recorded_by_name(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir()
    (cache / FILE).write_bytes(b"x")
    with datafiles.recording() as read:
        assert datasets.find(NAME) == cache / FILE
    assert read == {f"$NETSIM_CACHE/{FILE}": hashlib.sha256(b"x").hexdigest()}
    assert datafiles.changed_files(read) == []
    # The record stays valid if the cache folder moves, or if the file is found in NETSIM_DATA instead.
    monkeypatch.setenv("NETSIM_CACHE", str(cache.rename(tmp_path / "moved")))
    assert datafiles.changed_files(read) == []
    monkeypatch.setenv("NETSIM_CACHE", str(cache))
    assert datafiles.changed_files(read) == [f"$NETSIM_CACHE/{FILE}"]
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path / "moved"))
    assert datafiles.changed_files(read) == []


def refused(tmp_path: Path, cache: Path, *words: str) -> str:
    """Return the one-line error of a refused data set, after checking that no file is left."""
    done = get(tmp_path, *words)
    assert done.returncode == 2
    assert left(cache) == set()
    (line,) = done.stderr.splitlines()
    return line


def test_a_wrong_digest_keeps_nothing(server: Server, cache: Path, tmp_path: Path, monkeypatch: Any) -> None:
    enter(monkeypatch, server.address("air+quality.zip", air_zip()), "0" * 64)
    line = refused(tmp_path, cache)
    assert line.startswith(f"netsim: {NAME}: the SHA-256 of the prepared table is {DIGEST}: must be {'0' * 64}; ")


def test_a_cut_connection_keeps_nothing(served: Server, cache: Path, tmp_path: Path) -> None:
    served.cut = True
    address = datasets.SETS[NAME].addresses[0]
    assert refused(tmp_path, cache) == (
        f"netsim: {NAME}: {address} could not be read (the connection was cut); download it elsewhere, "
        f"then netsim data get {NAME} --from air+quality.zip"
    )
    served.cut = False
    assert get(tmp_path).returncode == 0
    assert left(cache) == {FILE}


def test_without_network_one_line_says_what_to_do(
    server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(monkeypatch, server.address("x", b"").replace("/x", "/gone.zip"))
    assert "/gone.zip could not be read (404 Not Found); download it elsewhere, then " in refused(tmp_path, cache)
    enter(monkeypatch, "http://127.0.0.1:1/air+quality.zip")
    assert "could not be read (no connection); download it elsewhere, then netsim data get" in refused(tmp_path, cache)


def test_an_original_downloaded_elsewhere_is_prepared(cache: Path, tmp_path: Path, monkeypatch: Any) -> None:
    enter(monkeypatch, "http://127.0.0.1:1/air+quality.zip")
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / "air+quality.zip").write_bytes(air_zip())
    (tmp_path / "AirQualityUCI.xlsx").write_bytes(air_xlsx())
    for given in ("downloads/air+quality.zip", "AirQualityUCI.xlsx", "downloads"):
        assert get(tmp_path, "--from", given).returncode == 0
        assert left(cache) == {FILE}
        (cache / FILE).unlink()
    (tmp_path / "other.zip").write_bytes(zipped({"AirQualityUCI.csv": AIR_CSV}))
    line = refused(tmp_path, cache, "--from", "other.zip")
    assert line == f"netsim: {NAME}: the original must hold AirQualityUCI.xlsx; it holds AirQualityUCI.csv"
    (tmp_path / "AirQualityUCI.xlsx").write_bytes(b"PK")
    assert "the original is not as it was published" in refused(tmp_path, cache, "--from", "AirQualityUCI.xlsx")
    assert "from = 'nowhere': must be an existing file or folder" in refused(tmp_path, cache, "--from", "nowhere")


def test_an_interrupt_keeps_nothing(served: Server, cache: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def interrupted(originals: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(preparation, NAME, interrupted)
    done = get(tmp_path)
    assert (done.returncode, done.stderr.strip()) == (130, f"netsim: interrupted; nothing of {NAME} was kept")
    assert left(cache) == set()


def test_two_gets_at_once_fetch_once(served: Server, cache: Path) -> None:
    served.goes_on.clear()
    found: list[Path] = []
    told: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(datasets.get(NAME, tell=told.append))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert served.is_half.wait(30)
    served.goes_on.set()
    for thread in threads:
        thread.join()
    assert found == [cache / FILE] * 2
    assert len(served.asked) == 1
    assert sorted(told)[-1] == f"{NAME}: is here, {cache / FILE}"
    assert left(cache) == {FILE}


def test_what_is_damaged_in_the_cache_is_fetched_again(served: Server, cache: Path, tmp_path: Path) -> None:
    cache.mkdir()
    for damaged in (b"", b"half"):
        (cache / FILE).write_bytes(damaged)
        assert get(tmp_path).returncode == 0
        assert where(datasets.SETS[NAME]) == cache / FILE
        assert len(load_table(NAME).target) == 2


def child(server: Server, cache: Path, limit: int = 0) -> "subprocess.Popen[str]":
    """Start the command in a process that may write files of at most ``limit`` bytes (0: unlimited)."""
    words = [datasets.SETS[NAME].addresses[0], DIGEST, str(limit)]
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", CHILD, *words], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of a file's size")
def test_no_space_keeps_nothing(served: Server, cache: Path) -> None:
    with child(served, cache, limit=2000) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == f"netsim: {NAME}: {cache} could not be written (no space)\n"
    assert left(cache) == set()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_a_killed_get_leaves_nothing_that_is_taken_for_a_table(served: Server, cache: Path, tmp_path: Path) -> None:
    served.goes_on.clear()
    with child(served, cache) as process:
        assert served.is_half.wait(60)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    served.goes_on.set()
    assert FILE not in left(cache)
    assert where(datasets.SETS[NAME]) is None
    assert get(tmp_path).returncode == 0
    assert left(cache) == {FILE}


def test_what_netsim_cannot_fetch_says_why(cache: Path, tmp_path: Path) -> None:
    done = call("data", "get", "blood", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("netsim: blood: netsim cannot fetch it: gigabytes of raw waves; ")
    with pytest.raises(datasets.Missing, match=r"public source: UCI id 340\).*; netsim cannot fetch it: gigabytes"):
        find_table("blood")
    assert UNTRIED in call("data", "list", "har", cwd=tmp_path).stdout
    done = call("data", "get", "airqality", cwd=tmp_path)
    assert done.stderr.endswith("must be one that netsim data list lists (did you mean 'airquality'?)\n")


def test_an_untried_preparation_says_so(server: Server, cache: Path, tmp_path: Path, monkeypatch: Any) -> None:
    files, _ = TABLES["conductivity"]
    known = datasets.SETS["conductivity"]
    monkeypatch.setitem(
        datasets.SETS, known.name, dataclasses.replace(known, addresses=(server.address("s.zip", files["s.zip"]),))
    )
    done = call("data", "get", known.name, cwd=tmp_path)
    assert f"{cache / known.name}.csv.gz, {UNTRIED}\n" in done.stdout
    assert load_table(known.name).target.tolist() == [29.0, 0.5]


def test_without_pooch_one_line_says_what_to_install(served: Server, cache: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(
        BadInput, match=r"^pooch: must be installed to fetch data: pip install '.\[data\]' in the clone$"
    ):
        datasets.get(NAME)
    assert left(cache) == set()


def test_a_cache_that_cannot_be_made_is_refused(served: Server, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NETSIM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        NetsimError, match=r"^NETSIM_CACHE: '.*' must be a folder that can be made \(Not a directory\)$"
    ):
        datasets.get(NAME)


@every(
    ("load", "name"),
    [(intel_lab, "intel_connectivity"), (lambda: find_table("airquality"), NAME)],
)
def test_a_missing_set_names_the_command_that_gets_it(cache: Path, load: Callable[[], object], name: str) -> None:
    with pytest.raises(datasets.Missing, match=f"; netsim data get {name} fetches it$"):
        load()


# --- what ships -------------------------------------------------------------------------------------------------------


def test_the_motes_that_ship_are_those_of_their_generator(cache: Path) -> None:
    from netsim.datasets.synthetic import write

    cache.mkdir()
    write(cache)
    for name in ("synthetic_connectivity", "synthetic_mote_locs"):
        assert (cache / f"{name}.csv").read_bytes() == (datasets.SHIPPED / f"{name}.csv").read_bytes()


def test_synthetic_motes_are_much_like_the_labs(cache: Path) -> None:
    graph, links = synthetic_lab()
    heard = [1.0 - link.loss_model.mean for link in links.values()]
    assert (len(graph), graph.number_of_edges()) == (53, 200)
    # Known properties of the Intel lab data: 53 motes, 202 links, mean reception 0.50, and almost all links asymmetric.
    assert sum(heard) / len(heard) == pytest.approx(0.5, abs=0.07)
    apart = [abs(links[a, b].loss_model.mean - links[b, a].loss_model.mean) for a, b in graph.edges]
    assert max(apart) > 0.2
    assert graph.nodes[1]["pos"] == (2.5, 4.0)
