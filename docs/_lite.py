"""The lessons in the browser: a JupyterLite in the site's folder lite/, with a wheel of netsim that is not compiled.

It is a hook of mkdocs, and builds only if asked: ``NETSIM_LITE=1 mkdocs build --strict`` makes it, and links each
lesson to it; ``python docs/_lite.py FOLDER`` makes it alone. Takes the extra ``lite``. Nothing is fetched at the build.
Whoever opens a lesson there fetches Python for the browser (Pyodide) and numpy, scipy and the like from the host that
jupyterlite-pyodide-kernel names.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LESSONS = ROOT / "docs" / "lessons"
ASKED = "NETSIM_LITE"
INSTALL = """# In the browser: netsim from this site, and what it needs from Pyodide's host.
%pip install -q netsim-emulator anywidget"""
LINK = "[This page as a notebook]({0}.ipynb)"
# Plain HTML: mkdocs knows no page there.
RUN = ' · <a href="../../lite/lab/index.html?path={0}.ipynb">Run this in the browser</a>'


def build(folder: Path) -> None:
    """Build JupyterLite with the lessons and a wheel of netsim into a folder.

    Raises
    ------
    SystemExit
        If the packages of the extra ``lite`` are absent, or the build fails.
    """
    if not all(importlib.util.find_spec(name) for name in ("jupyterlite_core", "jupyterlite_pyodide_kernel")):
        raise SystemExit(f"{ASKED}: the packages of JupyterLite are absent: pip install -e '.[lite]'")
    with tempfile.TemporaryDirectory() as work:
        contents, config, wheels = (Path(work, name) for name in ("contents", "config", "wheels"))
        for each in (contents, config):
            each.mkdir()
        for path in sorted(LESSONS.glob("*.ipynb")):
            (contents / path.name).write_text(json.dumps(for_the_browser(path)), encoding="utf-8")
        # Without its hook the wheel is of Python alone.
        hatchling = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
        _call(hatchling, ROOT, {"HATCH_BUILD_NO_HOOKS": "true"})
        (wheel,) = wheels.glob("*-none-any.whl")
        lite = [sys.executable, "-m", "jupyterlite_core", "build", "--no-sourcemaps", "--no-unused-shared-packages"]
        paths = {"lite-dir": config, "contents": contents, "piplite-wheels": wheel, "output-dir": folder.resolve()}
        # It leaves a database where it is called.
        _call([*lite, "--apps", "lab", *(f"--{name}={path}" for name, path in paths.items())], config, {})


def for_the_browser(path: Path) -> dict[str, Any]:
    """Return a lesson that installs netsim first, for the kernel of JupyterLite."""
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
    # Below the title.
    notebook["cells"].insert(1, install)
    return notebook


def _call(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(words, cwd=folder, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"docs/_lite.py: {' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


# --- what mkdocs asks of a hook ---------------------------------------------------------------------------------------


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link a lesson to itself in JupyterLite."""
    lesson = re.fullmatch(r"lessons/(\w+)\.md", page.file.src_uri)
    if lesson is None or not os.environ.get(ASKED):
        return markdown
    link = LINK.format(lesson[1])
    return markdown.replace(link, link + RUN.format(lesson[1]), 1)


def on_post_build(config: Any) -> None:
    """Build JupyterLite beside the pages."""
    if os.environ.get(ASKED):
        build(Path(config.site_dir, "lite"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python docs/_lite.py FOLDER")
    build(Path(sys.argv[1]))
