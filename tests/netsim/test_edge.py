"""The public edge: what `import netsim` gives."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import netsim


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
    ["Network", "errors.BadInput", "latency.uniform", "Heard", "find('coke').title", "agents.COKE", "testing.play"],
)
def test_any_name_may_come_first(first: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import netsim; print(netsim.{first})"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_edge_alone_imports_no_library() -> None:
    code = "import sys, netsim; print(sorted({'numpy', 'pandas', 'networkx', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_there_is_one_version() -> None:
    root = Path(__file__).parents[2]
    assert netsim.__version__ == version("netsim")
    assert 'dynamic = ["version"]' in (root / "pyproject.toml").read_text()
    assert f"\nversion: {netsim.__version__}\n" in (root / "CITATION.cff").read_text()
    numbers = re.findall(r"^## (\d\S*)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert numbers[0] == netsim.__version__


def test_what_is_missing_inside_a_room_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError("No module named 'msgpack'", name="msgpack")

    monkeypatch.setattr("netsim.importlib.import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="msgpack"):
        netsim.anything  # noqa: B018
