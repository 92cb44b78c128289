"""The public edge: what `import netsim` gives."""

import importlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import netsim
from netsim._former import ATTRIBUTES
from tests.command import ROOT, python


def test_all_of_it_is_there() -> None:
    for name in netsim.__all__:
        assert getattr(netsim, name) is not None
        assert name in dir(netsim)
    assert len(set(netsim.__all__)) == len(netsim.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'netsim' has no attribute 'Agnet'"):
        netsim.Agnet  # noqa: B018
    with pytest.raises(ImportError):
        from netsim import Agnet  # noqa: F401


@pytest.mark.parametrize(
    "first",
    [
        "Network",
        "errors.BadInput",
        "latency.uniform",
        "core.Copies",
        "studies.find_study('coke').title",
        "agents.COKE",
        "testing.play",
    ],
)
def test_any_name_may_come_first(first: str) -> None:
    python(f"import netsim; print(netsim.{first})")


def test_the_edge_alone_imports_no_library() -> None:
    code = "import sys, netsim; print(sorted({'numpy', 'pandas', 'networkx', 'asyncio'} & set(sys.modules)))"
    assert python(code) == "[]\n"


def test_there_is_one_version() -> None:
    assert netsim.__version__ == version("netsim-emulator"), "pip uninstall netsim; pip install -e '.[dev]'"
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
    assert f"\nversion: {netsim.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    numbers = re.findall(r"^## (\d\S*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert numbers[0] == netsim.__version__


def test_no_hint_installs_what_another_published_under_the_same_name() -> None:
    """The public index has a package netsim that is not this one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "netsim-emulator"
    files = [
        each for name in ("agents", "benchmarks", "docs", "netsim", "scenarios") for each in (ROOT / name).rglob("*.*")
    ]
    files += [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "check", *ROOT.glob(".github/*/*")]
    extras = set()
    for file in files:
        if file.suffix in (".py", ".md", ".ipynb", ".toml", ".yml", ".js", ".mjs", ".html", ""):
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"pip install (?:-\S+ )*['\"]?netsim(?!-emulator)", text), file
            extras |= set(re.findall(r"pip install (?:-\w )*['\"]?\.\[([\w,]+)\]", text))
    assert {"arrow", "dask", "mqtt", "notebook", "test"} <= extras <= set(project["optional-dependencies"])


def test_what_is_missing_inside_a_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError("No module named 'msgpack'", name="msgpack")

    monkeypatch.delattr(netsim, "testing", raising=False)
    monkeypatch.setattr("lazy_loader.importlib.import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="msgpack"):
        netsim.testing  # noqa: B018


def test_former_names_work_and_give_the_new_one() -> None:
    for name, new in ATTRIBUTES.items():
        with pytest.warns(DeprecationWarning, match=f"^netsim.{name} is now netsim.{re.escape(new)}$"):
            former = getattr(netsim, name)
        room, _, name = new.rpartition(".")
        assert former is getattr(importlib.import_module(f"netsim.{room}"), name)


def test_former_modules_are_the_new_ones() -> None:
    code = (
        "import importlib, warnings; warnings.simplefilter('ignore'); from netsim._former import MODULES\n"
        "for former, new in MODULES.items():\n"
        "    assert importlib.import_module(f'netsim.{former}') is importlib.import_module(f'netsim.{new}'), former\n"
        "import netsim.sockets.udp, netsim.count.ledger, netsim.latency\n"
        "from netsim.loss import bernoulli\n"
        "assert netsim.latency.uniform and netsim.sockets.udp.UDP"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_former_names_in_modules_are_the_new_ones() -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from netsim.transport.fan import Fan; from netsim.transport.instants import InstantSelector\n"
        "from netsim.count.records import EXIT; from netsim.transport.arrivals import Arrivals as Twin\n"
        "import netsim.core, netsim.core.records, netsim.core.link_draws, netsim.core.arrival_queue\n"
        "assert Fan is netsim.core.link_draws.LinkDraws and EXIT is netsim.core.records.OUTCOME\n"
        "assert Twin is netsim.core.arrival_queue.ArrivalQueue and InstantSelector.__name__ == 'ClockSelector'\n"
        "assert netsim.core.Gate is netsim.core.RoundBarrier\n"
        "from netsim.sockets.merge import gather, Part; from netsim.sockets.post import Far\n"
        "from netsim.transport.outbox import SENDS_AT_ONCE; from netsim.live.session import watching\n"
        "from netsim.sockets.scribe import Scribe; from netsim.sockets.envelope import Beat\n"
        "assert gather is netsim.distributed.merge_parts and watching is netsim.live.live_view\n"
        "assert SENDS_AT_ONCE == 100_000 and Part.__name__ == 'RunPart' and Far.__name__ == 'RemoteEndpoint'\n"
        "assert Scribe.__name__ == 'JournalWriter' and Beat.__name__ == 'Heartbeat'\n"
        "try: netsim.core.link_draws.Other\n"
        "except AttributeError as error: assert 'link_draws' in str(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_warning_names_the_line_that_uses_a_former_module(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("import netsim\nfrom netsim.reliability import Reliability\nnetsim.find\n")
    done = subprocess.run([sys.executable, "old.py"], capture_output=True, text=True, cwd=tmp_path)
    assert "old.py:2: DeprecationWarning: netsim.reliability is now netsim.links.reliability" in done.stderr
    assert "old.py:3: DeprecationWarning: netsim.find is now netsim.studies.find_study" in done.stderr
