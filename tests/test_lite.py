"""The lessons in the browser (docs/_lite.py): their first cell, their links, the build where it is installed."""

import functools
import http.server
import importlib.util
import json
import runpy
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chromium import Page
from tests.command import ROOT

SCRIPT = ROOT / "docs" / "_lite.py"
LESSONS = sorted((ROOT / "docs" / "lessons").glob("*.ipynb"))


@pytest.fixture(scope="module")
def lite() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_a_lesson_in_the_browser_installs_netsim_below_its_title(lite: dict[str, Any]) -> None:
    for path in LESSONS:
        notebook, there = json.loads(path.read_text(encoding="utf-8")), lite["for_the_browser"](path)
        title, install, *rest = there["cells"]
        assert "".join(title["source"]).startswith("# ")
        assert [title, *rest] == notebook["cells"]
        assert install["cell_type"] == "code"
        assert "\n%pip install -q netsim-emulator anywidget" in install["source"]
        # That of Pyodide, and not the one of a machine.
        assert there["metadata"]["kernelspec"]["name"] == "python"


@pytest.mark.parametrize("asked", [True, False])
def test_each_lesson_links_to_itself_if_that_is_built(
    lite: dict[str, Any], asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETSIM_LITE", "1" if asked else "")
    # The page's own line, as docs/_site.py writes it.
    assert "[This page as a notebook]({path.name})" in (ROOT / "docs" / "_site.py").read_text()
    for path in LESSONS[:2]:
        text = f"# A title\n\n[This page as a notebook]({path.name})\n\nText"
        page = SimpleNamespace(file=SimpleNamespace(src_uri=f"lessons/{path.stem}.md"))
        link = f'<a href="../../lite/lab/index.html?path={path.name}">Run this in the browser</a>'
        linked = lite["on_page_markdown"](text, page)
        assert (link in linked) == asked
        assert linked.replace(f" · {link}", "") == text
    other = SimpleNamespace(file=SimpleNamespace(src_uri="links.md"))
    assert lite["on_page_markdown"]("[This page", other) == "[This page"


def test_without_the_packages_it_says_what_to_install(
    lite: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"^NETSIM_LITE: .* absent: pip install -e '.\[lite\]'$"):
        lite["build"](tmp_path / "lite")
    assert not (tmp_path / "lite").exists()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (importlib.util.find_spec("jupyterlite_core") and importlib.util.find_spec("jupyterlite_pyodide_kernel")):
        pytest.skip("needs JupyterLite: pip install -e '.[lite]'")
    folder = tmp_path_factory.mktemp("site") / "lite"
    done = subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def address(built: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *values: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(built))) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
def test_the_build_has_the_lessons_and_a_wheel_that_is_not_compiled(built: Path) -> None:
    assert sorted(path.name for path in (built / "files").iterdir()) == [path.name for path in LESSONS]
    (wheel,) = (built / "pypi").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"netsim/clock/clock.py", "netsim/agents/__init__.py", "netsim/scenarios/__init__.py"} <= set(names)
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
    known = json.loads((built / "pypi" / "all.json").read_text())
    assert list(known) == ["netsim-emulator"]
    config = (built / "jupyter-lite.json").read_text()
    assert "anywidget" in config
    assert "./pypi/all.json" in config


@pytest.mark.slow
def test_a_lesson_opens_in_it(address: str, browser: Page) -> None:
    """Its text, by which nothing but this site is asked; its Python comes from a host that tests do not reach."""
    words = ["1 · Flooding and spanning trees", "%pip install -q netsim-emulator anywidget"]
    shown = f"document.body && {words}.every(each => document.body.innerText.includes(each))"
    seen = f"new Promise(done => {{ const look = () => {shown} ? done(true) : setTimeout(look, 50); look(); }})"
    browser.open(f"{address}/lab/index.html?path=01_flooding.ipynb", ready=seen)
    assert {url[: len(address)] for url in browser.requested if url.startswith("http")} == {address}
