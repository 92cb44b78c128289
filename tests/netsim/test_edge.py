"""The public edge: what `import netsim` gives."""

import subprocess
import sys

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


@pytest.mark.parametrize("first", ["Network", "errors.BadInput", "latency.uniform", "Heard"])
def test_any_name_may_come_first(first: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import netsim; print(netsim.{first})"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_edge_alone_imports_no_library() -> None:
    code = "import sys, netsim; print(sorted({'numpy', 'pandas', 'networkx', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
