"""Lessons that run in the browser: builds a JupyterLite, with Python and netsim, in the site's folder lite/.

This module is a hook of mkdocs that builds only on request: ``NETSIM_LITE=1 mkdocs build --strict`` builds the folder
and links each lesson to it. ``python docs/_lite.py FOLDER`` builds only the folder. The extra ``lite`` is required. The
build downloads nothing, and a reader's browser contacts only the site. Python for the browser is npm's package pyodide
(NETSIM_PYODIDE is its node_modules). Wheels are taken from NETSIM_PYODIDE_DIST, a folder with a Pyodide distribution of
the same version; their sha256 must agree with the lock file of npm's package. A file missing there is missing on the
site, too: lite/start.html, the page that opens a lesson, first checks all files, and names missing ones.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LESSONS = ROOT / "docs" / "lessons"
ASKED, RUNTIME, DISTRIBUTION = "NETSIM_LITE", "NETSIM_PYODIDE", "NETSIM_PYODIDE_DIST"
RUNS = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
"""Files of npm's package that the site serves."""
KERNEL = ("micropip", "ipython", "jedi", "typing-extensions")
"""Packages of the distribution that JupyterLite's kernel and widgets need, in addition to netsim's dependencies."""
BESIDE = ("anywidget", "comm", "filelock", "ipywidgets", "jupyterlab-widgets", "psygnal")
"""Pure-Python wheels outside the distribution; ``pip download --no-deps`` puts them into the same folder."""
INSTALL = """# In the browser: netsim, and what it needs, from this site.
%pip install -q netsim-emulator anywidget"""
LINK = "[This page as a notebook]({0}.ipynb)"
# Plain HTML instead of a Markdown link, because mkdocs does not know the target page.
RUN = ' · <a href="../lite/start.html?path={0}.ipynb">Run this in the browser</a>'

# Settings of JupyterLite, without access to the public package index.
CONFIG = {
    "jupyter-lite-schema-version": 0,
    "jupyter-config-data": {
        "litePluginSettings": {"@jupyterlite/pyodide-kernel-extension:kernel": {"disablePyPIFallback": True}}
    },
}
START = Path(__file__).with_name("_start.html")
"""Template of the page that opens a lesson."""


def build(folder: Path) -> None:
    """Build JupyterLite with the lessons and a wheel of netsim into a folder.

    Raises
    ------
    SystemExit
        If the packages of the extra ``lite`` or Pyodide are absent, a wheel differs from the lock file, or the build
        fails.
    """
    if not all(importlib.util.find_spec(name) for name in ("jupyterlite_core", "jupyterlite_pyodide_kernel")):
        raise SystemExit(f"{ASKED}: the packages of JupyterLite are absent: pip install -e '.[lite]'")
    runtime = Path(os.environ.get(RUNTIME, ""), "pyodide")
    if absent := [name for name in RUNS if not (runtime / name).is_file()]:
        raise SystemExit(f"{RUNTIME}: {runtime / absent[0]} is absent: npm install pyodide, and name its node_modules")
    with tempfile.TemporaryDirectory() as work:
        contents, config, wheels = (Path(work, name) for name in ("contents", "config", "wheels"))
        python = config / "static" / "pyodide"
        for each in (contents, python):
            each.mkdir(parents=True)
        for name in RUNS:
            shutil.copy(runtime / name, python)
        lock = json.loads((runtime / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
        served, beside, missing = wheels_of(lock, os.environ.get(DISTRIBUTION))
        for each in served:
            shutil.copy(each, python)
        if missing:
            print(f"docs/_lite.py: no lesson runs in the browser: missing in {DISTRIBUTION}: {', '.join(missing)}")
        (config / "jupyter-lite.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        for path in sorted(LESSONS.glob("*.ipynb")):
            (contents / path.name).write_text(json.dumps(for_the_browser(path)), encoding="utf-8")
        # Without netsim's build hook, which compiles the core, the wheel is pure Python.
        hatchling = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
        _call(hatchling, ROOT, {"HATCH_BUILD_NO_HOOKS": "true"})
        (wheel,) = wheels.glob("*-none-any.whl")
        lite = [sys.executable, "-m", "jupyterlite_core", "build", "--no-sourcemaps", "--no-unused-shared-packages"]
        paths = {"lite-dir": config, "contents": contents, "output-dir": folder.resolve()}
        paths_of_wheels = [f"--piplite-wheels={path}" for path in (wheel, *beside)]
        # The command writes a database into its working folder, so it runs in a temporary one.
        _call(
            [*lite, "--apps", "lab", *(f"--{name}={path}" for name, path in paths.items()), *paths_of_wheels],
            config,
            {},
        )
        # All files required to run a lesson, even if they are missing.
        at = [f"static/pyodide/{name}" for name in (*RUNS, *(each.name for each in served))]
        at += [f"pypi/{each.name}" for each in (wheel, *beside)]
        start(folder, [*at, *(f"static/pyodide/{name}" for name in missing)])


def start(folder: Path, files: list[str]) -> None:
    """Write the page that checks for these files and then opens a lesson."""
    page = START.read_text(encoding="utf-8").replace("{{files}}", json.dumps(files))
    (folder / "start.html").write_text(page, encoding="utf-8")


def wheels_of(lock: dict[str, Any], folder: str | None) -> tuple[list[Path], list[Path], list[str]]:
    """Return the distribution's wheels that lessons need, the wheels of `BESIDE`, and the names of missing ones.

    ``lock`` holds the packages listed in Pyodide's lock file.

    Raises
    ------
    SystemExit
        If a wheel differs from the lock file.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left = [*KERNEL, *(re.split(r"[^\w-]", each)[0].lower() for each in project["dependencies"])]
    needed: dict[str, Any] = {}
    while left:
        name = left.pop()
        if name in lock and name not in needed:
            needed[name] = lock[name]
            left += [each.lower().replace("_", "-") for each in lock[name]["depends"]]
    place = Path(folder) if folder else None
    served, beside, missing = [], [], []
    for package in sorted(needed.values(), key=lambda each: str(each["file_name"])):
        path = place / package["file_name"] if place else None
        if path is None or not path.is_file():
            missing.append(package["file_name"])
        elif hashlib.sha256(path.read_bytes()).hexdigest() != package["sha256"]:
            raise SystemExit(
                f"{DISTRIBUTION}: {path.name} is not the file of Pyodide's lock file: its sha256 is another"
            )
        else:
            served.append(path)
    for name in BESIDE:
        found = sorted(place.glob(f"{name.replace('-', '_')}-*-none-any.whl")) if place else []
        beside += found[-1:]
        missing += [] if found else [f"{name.replace('-', '_')}-*-none-any.whl"]
    return served, beside, missing


def for_the_browser(path: Path) -> dict[str, Any]:
    """Return a lesson's notebook for JupyterLite's kernel, with a cell that first installs netsim."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    notebook["metadata"]["kernelspec"] = {"display_name": "Python (Pyodide)", "language": "python", "name": "python"}
    install = {
        "cell_type": "code",
        "execution_count": None,
        "id": "install",
        "metadata": {},
        "outputs": [],
        "source": INSTALL,
    }
    # Inserted below the title.
    notebook["cells"].insert(1, install)
    return notebook


def _call(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(words, cwd=folder, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"docs/_lite.py: {' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


# --- what mkdocs asks of a hook ---------------------------------------------------------------------------------------


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Add a link from a lesson's page to the lesson in JupyterLite."""
    lesson = re.fullmatch(r"lessons/(\w+)\.md", page.file.src_uri)
    if lesson is None or not os.environ.get(ASKED):
        return markdown
    link = LINK.format(lesson[1])
    return markdown.replace(link, link + RUN.format(lesson[1]), 1)


def on_post_build(config: Any) -> None:
    """Build JupyterLite after the pages, if requested."""
    if os.environ.get(ASKED):
        build(Path(config.site_dir, "lite"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python docs/_lite.py FOLDER")
    build(Path(sys.argv[1]))
