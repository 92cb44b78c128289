"""The names that `import netsim` makes public."""

import re
import tomllib
from importlib.metadata import version

import pytest

import netsim
from tests.command import ROOT, python


def test_all_of_it_is_there() -> None:
    for name in netsim.__all__:
        assert getattr(netsim, name) is not None
        assert name in dir(netsim)
    assert len(set(netsim.__all__)) == len(netsim.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Agnet"):
        netsim.Agnet  # noqa: B018
    with pytest.raises(ImportError):
        from netsim import Agnet  # noqa: F401


NAMES = ("Network", "errors.BadInput", "latency.uniform", "core.Copies", "studies.find_study('coke').title")
NAMES += ("agents.COKE", "testing.play")


@pytest.mark.slow
def test_any_name_may_come_first() -> None:
    """Each import forgets earlier ones, as if it happened in a new process."""
    code = "import sys\nfor first in sys.argv[1:]:\n    import netsim\n    eval('netsim.' + first)\n"
    forget = "    for name in [each for each in sys.modules if each.split('.')[0] == 'netsim']: del sys.modules[name]\n"
    python(code + forget, *NAMES)


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
    """The package index contains a different package named netsim."""
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
