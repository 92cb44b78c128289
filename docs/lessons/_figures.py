"""The figures of the lessons for slides, as SVG: ``python docs/lessons/_figures.py FOLDER [LESSON ...]``.

It executes the lessons that are named, or all, and writes their figures in the order of the lesson
(FOLDER/01_flooding-1.svg, ...); FOLDER/01_flooding-run-1.svg is the first run that the lesson draws. Takes nbclient and
ipykernel (``pip install -e '.[dev]'``).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import nbformat
from _execute import execute, named

from netsim.util.files import write_whole

_PRELUDE = """
%matplotlib inline
%config InlineBackend.figure_formats = ["svg"]
import itertools as _itertools
from netsim.run import Run as _Run

_STEM = {stem!r}
_picture, _numbers = _Run.picture, _itertools.count(1)


def _twice(run, path, **how):
    _picture(run, f"{_STEM}-run-{next(_numbers)}.svg", **how)
    return _picture(run, path, **how)


_Run.picture = _twice
"""


def figures(path: Path, folder: Path) -> int:
    """Write the figures of a lesson into a folder; return how many there are.

    Raises
    ------
    CellExecutionError
        If a cell raises.
    """
    stem = folder.resolve() / path.stem
    lesson = nbformat.read(path, as_version=4)
    prelude = nbformat.v4.new_code_cell(_PRELUDE.replace("{stem!r}", repr(str(stem))))
    execute(nbformat.v4.new_notebook(cells=[prelude, *lesson.cells]))
    outputs = [output for cell in lesson.cells if cell.cell_type == "code" for output in cell.outputs]
    drawn = [output.data["image/svg+xml"] for output in outputs if "image/svg+xml" in output.get("data", {})]
    for number, text in enumerate(drawn, 1):
        with write_whole(Path(f"{stem}-{number}.svg")) as file:
            file.write(text.encode())
    return len(list(folder.glob(f"{path.stem}-*.svg")))


def main() -> int:
    """Write the figures of the lessons that are named, or of all."""
    if len(sys.argv) < 2:
        print("usage: python docs/lessons/_figures.py FOLDER [LESSON ...]", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for path in named(sys.argv[2:]):
        print(f"{path.stem}: {figures(path, folder)} figures", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
