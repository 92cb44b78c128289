"""The lessons in the browser (docs/_lite.py): first cells, links, and, with JupyterLite installed, the build."""

import hashlib
import importlib.util
import json
import os
import runpy
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chromium import Page, serving
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
        # This is the name of Pyodide's kernel, not of a kernel on a machine.
        assert there["metadata"]["kernelspec"]["name"] == "python"


@pytest.mark.parametrize("asked", [True, False])
def test_each_lesson_links_to_itself_if_that_is_built(
    lite: dict[str, Any], asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETSIM_LITE", "1" if asked else "")
    # docs/_site.py writes this line, which the link is added to.
    assert "[This page as a notebook]({path.name})" in (ROOT / "docs" / "_site.py").read_text()
    for path in LESSONS[:2]:
        text = f"# A title\n\n[This page as a notebook]({path.name})\n\nText"
        page = SimpleNamespace(file=SimpleNamespace(src_uri=f"lessons/{path.stem}.md"))
        link = f'<a href="../lite/start.html?path={path.name}">Run this in the browser</a>'
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


def test_without_pyodide_it_says_where_that_is_had(
    lite: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "found")
    monkeypatch.setenv("NETSIM_PYODIDE", str(tmp_path))
    with pytest.raises(SystemExit, match=r"^NETSIM_PYODIDE: .*pyodide\.mjs is absent: npm install pyodide"):
        lite["build"](tmp_path / "lite")


def a_lock(**wheels: bytes) -> dict[str, Any]:
    """Return the packages of a lock file, each of which depends on those that follow it."""
    names = list(wheels)
    return {
        name: {
            "file_name": f"{name}-1.0-py3-none-any.whl",
            "sha256": hashlib.sha256(content).hexdigest(),
            "depends": names[number + 1 :],
        }
        for number, (name, content) in enumerate(wheels.items())
    }


def test_what_lessons_need_comes_from_the_distribution_and_what_it_lacks_is_named(
    lite: dict[str, Any], tmp_path: Path
) -> None:
    # netsim needs pandas, pandas needs dateutil, and nothing needs astropy.
    lock = a_lock(pandas=b"pandas", dateutil=b"dateutil") | a_lock(astropy=b"astropy")
    for name in ("pandas-1.0", "astropy-1.0", "filelock-3.2", "comm-0.1", "comm-0.2"):
        content = name.partition("-")[0].encode()
        (tmp_path / f"{name}-py3-none-any.whl").write_bytes(content)
    served, beside, missing = lite["wheels_of"](lock, str(tmp_path))
    assert [path.name for path in served] == ["pandas-1.0-py3-none-any.whl"]
    assert [path.name.partition("-py3")[0] for path in beside] == ["comm-0.2", "filelock-3.2"]
    assert missing[0] == "dateutil-1.0-py3-none-any.whl"
    assert "anywidget-*-none-any.whl" in missing
    served, beside, missing = lite["wheels_of"](lock, None)
    assert (served, beside) == ([], [])
    assert missing[:2] == ["dateutil-1.0-py3-none-any.whl", "pandas-1.0-py3-none-any.whl"]


def test_a_wheel_that_is_not_the_lock_files_is_refused(lite: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "numpy-1.0-py3-none-any.whl").write_bytes(b"something else")
    refusal = r"^NETSIM_PYODIDE_DIST: numpy-1\.0-py3-none-any\.whl is not the file of Pyodide's lock file"
    with pytest.raises(SystemExit, match=refusal):
        lite["wheels_of"](a_lock(numpy=b"numpy"), str(tmp_path))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (importlib.util.find_spec("jupyterlite_core") and importlib.util.find_spec("jupyterlite_pyodide_kernel")):
        pytest.skip("needs JupyterLite: pip install -e '.[lite]'")
    folder, modules = tmp_path_factory.mktemp("site") / "lite", tmp_path_factory.mktemp("node_modules")
    (modules / "pyodide").mkdir()
    # These files are only copied, so any content will do.
    for name in runpy.run_path(str(SCRIPT))["RUNS"]:
        (modules / "pyodide" / name).write_text(json.dumps({"packages": a_lock(numpy=b"numpy")}))
    environment = os.environ | {"NETSIM_PYODIDE": str(modules), "NETSIM_PYODIDE_DIST": str(modules)}
    words = [sys.executable, str(SCRIPT), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def address(built: Path) -> Iterator[str]:
    with serving(built) as found:
        yield found


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
    assert "./static/pyodide/pyodide.mjs" in config
    assert "numpy-1.0-py3-none-any.whl" in (built / "start.html").read_text()


@pytest.mark.slow
def test_a_lesson_opens_in_it(address: str, browser: Page) -> None:
    """A lesson is shown, and only this site is asked for it; Python would come from a host that tests cannot reach."""
    words = ["1 · Flooding and spanning trees", "%pip install -q netsim-emulator anywidget"]
    shown = f"document.body && {words}.every(each => document.body.innerText.includes(each))"
    seen = f"new Promise(done => {{ const look = () => {shown} ? done(true) : setTimeout(look, 50); look(); }})"
    browser.open(f"{address}/lab/index.html?path=01_flooding.ipynb", ready=seen)
    assert {url[: len(address)] for url in browser.requested if url.startswith("http")} == {address}


@pytest.mark.slow
def test_who_opens_a_lesson_is_told_what_the_site_lacks(lite: dict[str, Any], browser: Page, tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "index.html").write_text("<title>a lesson</title>")
    (tmp_path / "there.whl").touch()
    lite["start"](tmp_path, ["there.whl", "static/pyodide/numpy-1.0.whl", "pypi/comm-*-none-any.whl"])
    with serving(tmp_path) as address:
        browser.open(f"{address}/start.html?path=01_flooding.ipynb", ready="window.started")
        assert browser.run("document.querySelector('p').textContent").startswith(
            "No lesson can run in the browser here"
        )
        assert browser.run("document.querySelector('ul').innerText").split() == ["numpy-1.0.whl", "comm-*-none-any.whl"]
        lite["start"](tmp_path, ["there.whl"])
        # The query differs from the first one, because the browser has cached that page.
        browser.open(f"{address}/start.html?again&path=01_flooding.ipynb", ready="1")
        for _ in range(500):
            # The browser may leave the page just while it is asked.
            with suppress(RuntimeError):
                if browser.run("document.title") == "a lesson":
                    break
            time.sleep(0.02)
        assert browser.run("location.href") == f"{address}/lab/index.html?path=01_flooding.ipynb"
    browser.open(tmp_path / "start.html", ready="window.started")
    assert browser.run("document.querySelector('p').textContent").startswith("From disk a browser starts no Python")
