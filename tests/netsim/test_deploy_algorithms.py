"""The papers' algorithms in four processes are the simulation's to the last bit, on ideal links and on others."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import mosquitto, program, relaxed

pytestmark = pytest.mark.slow
HOW = ("--processes", "4", "--agents", "8", "--rounds", "8")
HARD = ("--loss", "0.1", "--latency", "0.05", "--rate", "1e6")
STUDIES = {
    "COKE, plain and quantized": ("coke", "--algorithms", "COKE,COKE 4-bit", "--bits", "4"),
    # Of whose censor half of the broadcasts are left, in so few rounds.
    "QC-ODKLA": ("online", "--algorithms", "QC-ODKLA", "--threshold", "0.1"),
    "gossip OMKL": (
        "omkl",
        "--algorithms",
        "gossip",
        "--repeats",
        "1",
        "--topologies",
        "path",
        "--eta",
        "0.1",
        "--gamma",
        "0.09",
    ),
}


def must_be_the_simulation(words: tuple[str, ...], folder: Path) -> None:
    said = ""

    def deploy(seconds: float, out: Path) -> None:
        nonlocal said
        flags = [*HOW, "--round-time", str(seconds), "--out", str(out)]
        command = [sys.executable, "-m", "netsim", "deploy", *words, *flags]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        said = done.stdout

    relaxed(deploy, folder)
    runs = "1 run" if "QC-ODKLA" in words else "2 runs"
    same = "The same as in the simulation, to the last bit: all rows and the trace hash of"
    found = re.search(rf"{same} {runs}, ([\d,]+) link messages\.", said)
    assert found, said
    assert int(found[1].replace(",", "")) >= 50


@pytest.mark.parametrize("links", [(), HARD], ids=["ideal", "impaired"])
@pytest.mark.parametrize("name", STUDIES)
def test_over_udp(name: str, links: tuple[str, ...], tmp_path: Path) -> None:
    must_be_the_simulation(STUDIES[name] + links, tmp_path)


@pytest.mark.parametrize("name", ["COKE, plain and quantized", "gossip OMKL"])
def test_over_mqtt(name: str, tmp_path: Path) -> None:
    pytest.importorskip("aiomqtt", reason="no aiomqtt: pip install '.[mqtt]'")
    if program("mosquitto") is None:
        pytest.skip("no mosquitto: apt-get install mosquitto")
    with mosquitto(tmp_path) as (broker, _):
        must_be_the_simulation(STUDIES[name] + HARD + ("--transport", "mqtt", "--broker", broker), tmp_path)
