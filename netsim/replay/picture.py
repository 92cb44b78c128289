"""Pictures and films of a run, drawn like its page but without a browser: PNG, SVG, GIF and, with ffmpeg, MP4."""

import io
import itertools
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from netsim.errors import BadInput, NetsimError
from netsim.replay.canvas import Painter, svg
from netsim.replay.film import Film, film_of
from netsim.replay.run_history import RunHistory
from netsim.replay.still import Still
from netsim.util import check
from netsim.util.files import write_pieces

__all__ = ["FORMATS", "VIEWS", "Wanted", "format_of", "size_of", "write_picture"]

FORMATS = ("gif", "mp4", "svg", "png")
"""The supported formats, which are also the suffixes of files."""

VIEWS = ("map", "spacetime")
"""The supported views. The name ``sequence`` is accepted for ``spacetime``, too."""

Report = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]

# A diagram of a long run shows _EACH frames per agent, but at least _FEW and at most _MANY. A run with up to _WHOLE
# times as many frames is shown completely.
_EACH, _FEW, _MANY, _WHOLE = 30, 80, 300, 1.34

# For films: pictures per second, the largest length (s), and the duration (s) of the last picture.
_FPS, _MOST, _LAST = 12, 24.0, 1.0

# For GIFs: the palette is computed from _SAMPLES pictures, and has _COLOURS colours.
_SAMPLES, _COLOURS = 8, 128

# Pillow does not distinguish colours at a smaller distance (red, green and blue up to 255).
_ALIKE = 12.0

# _SMALLEST (width and height) and _LARGEST (each side) limit sizes in pixels. _BYTES is the memory needed per pixel.
_SMALLEST, _LARGEST, _BYTES = (240, 160), 10_000, 16 + 4 * _SAMPLES


@dataclass(frozen=True)
class Wanted:
    """The content and style of a picture.

    Parameters
    ----------
    view : str, optional
        "map" or "spacetime"; by default a film shows the map, and a still picture the space–time diagram.
    begin, end : float, optional
        The first and last simulated time (s) to show. A map as a still picture shows the time ``begin`` (by default the
        end of the run). A film of the map shows everything between both times if that takes at most 24 s of film
        (`netsim.replay.film`), otherwise the most important moments. A diagram shows by default the whole run if it has
        at most 400 frames (with few agents 100), else its beginning.
    theme : str, optional
        "light" or "dark"; by default a picture is light, and an SVG follows the reader's colour scheme.
    size : (int, int), optional
        Width and height in pixels.
    fps : int, optional
        Pictures per second of a film, from 1 to 50; by default 12.

    Raises
    ------
    BadInput
        If an argument has none of these values.
    """

    view: str | None = None
    begin: float | None = None
    end: float | None = None
    theme: str | None = None
    size: tuple[int, int] | None = None
    fps: int | None = None

    def __post_init__(self) -> None:
        if self.view is not None:
            check.put(self, view="spacetime" if self.view == "sequence" else check.one_of("view", self.view, VIEWS))
        check.fields(self, check.one_of, "theme", optional=True, allowed=("light", "dark"))
        for name, field in (("from", "begin"), ("to", "end")):
            if (value := getattr(self, field)) is not None:
                check.put(self, **{field: check.finite(name, value, low=0.0)})
        check.fields(self, check.integer, "fps", optional=True, low=1, high=50)
        if self.size is not None:
            size = check.pair("size", self.size, "(width, height) in pixels")
            check.put(self, size=size)
            for name, each, least in zip(("width", "height"), size, _SMALLEST, strict=True):
                check.integer(f"size, {name}", each, low=least, high=_LARGEST)
            check.fits("size", size, _BYTES * size[0] * size[1], "its pixels")


def size_of(text: str) -> tuple[int, int]:
    """Parse a size written as WIDTHxHEIGHT; raises BadInput for any other text."""
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and len(text) < 20):
        raise check.refuse("size", text, "WIDTHxHEIGHT in pixels, such as 1200x800")
    return int(width), int(height)


def format_of(path: str | Path) -> str:
    """Return the format of a file by its suffix; raises BadInput if it is unknown, or mp4 without ffmpeg."""
    ending = Path(path).suffix[1:].lower()
    if ending not in FORMATS:
        raise check.refuse("path", str(path), f"a name that ends in {', '.join(f'.{each}' for each in FORMATS)}")
    if ending == "mp4" and shutil.which("ffmpeg") is None:
        raise BadInput("mp4: requires the program ffmpeg, which is not on the PATH here; a gif does not")
    return ending


def write_picture(
    meta: Mapping[str, Any],
    columns: Mapping[str, NDArray[Any]],
    path: str | Path,
    wanted: Wanted,
    report: Report | None = None,
) -> Path:
    """Draw a run into a file atomically, in the format of its suffix, and return its path.

    The same run gives the same bytes.

    Parameters
    ----------
    meta, columns : mapping
        The run, as for `netsim.replay.html.html`.
    path : str or Path
        Ends in .gif, .mp4, .svg or .png.
    wanted : Wanted
    report : callable, optional
        Called with a label and a total. Returns a context manager that yields a function, which is called with the
        number of pictures done.

    Raises
    ------
    BadInput
        If the time is outside the run, or the run lacks data that the format needs.
    NetsimError
        If the file cannot be written.
    """
    ending = format_of(path)
    film = ending in ("gif", "mp4")
    if wanted.fps is not None and not film:
        raise check.refuse("fps", wanted.fps, "left out for a picture that stands still")
    run = RunHistory(meta, columns)
    meta = meta if "film" in meta else {**meta, "film": film_of(run)}
    view = wanted.view or ("map" if film else "spacetime")
    begin, end = _stretch(run, wanted, view, film)
    size = wanted.size or ((880, 600) if film and view == "map" else (960, 600) if film else _usual_size(view, run))
    # A picture four times as large needs text about twice as high to be readable.
    k = min(max(math.pow(size[0] * size[1] / (960 * 600), 0.35), 0.7), 10.0) if wanted.size or film else 1.0

    def still(theme: str) -> Still:
        return Still(meta, columns, view=view, theme=theme, size=size, k=k, begin=begin, end=end)

    one, clock = still(wanted.theme or "light"), Film(meta["film"])
    if film:
        fps = wanted.fps or _FPS
        return _write_film(path, one, size, _times(run, clock, begin, end, fps), fps, report)
    # A map shows the time ``begin``, by default the end of the run. A diagram has no cursor, so its time is None.
    at = None if view != "map" else float(clock.at(end if wanted.begin is None else wanted.begin))
    below, above = one.at(at)
    if ending == "svg":
        dark = None if wanted.theme else still("dark")
        other = None if dark is None else (dark.ground, [*itertools.chain(*dark.at(at))])
        return write_pieces(path, [svg(size, one.about, one.ground, [*below, *above], other).encode()])
    # With a palette of 256 colours the file has a third of the size, and looks the same.
    painted = Painter(*size, one.ground).paint(below, above)
    image = painted.quantize(palette=_palette([painted], 256), dither=Image.Dither.NONE)
    return write_pieces(path, _saved(image, format="png", optimize=True))


def _stretch(run: RunHistory, wanted: Wanted, view: str, film: bool) -> tuple[float, float]:
    """Return the first and the last time (s) to show; raises BadInput if the wanted times are outside the run."""
    last = run.ended_at or 1.0
    for name, value in (("from", wanted.begin), ("to", wanted.end)):
        if value is not None and value > last:
            raise check.refuse(name, value, f"at most {last:g}, when the run ended (s)")
    if view == "map" and not film:
        if wanted.end is not None:
            raise check.refuse("to", wanted.end, "left out for a map in a still picture, which is of one time: from")
        return 0.0, last
    begin = wanted.begin or 0.0
    usual = last if view == "map" else _usual_end(run, begin, last)
    end = usual if wanted.end is None else wanted.end
    if not begin < end:
        raise check.refuse("from", begin, f"less than to = {end:g}")
    return begin, end


def _usual_end(run: RunHistory, begin: float, last: float) -> float:
    """Return the time (s) at which a diagram that begins at ``begin`` should end, so that it is readable."""
    departs = run.columns["depart"]
    departures: list[float] = np.sort(departs[departs >= begin]).tolist()
    period, rounds = float(run.meta["round_period"]), int(run.meta["rounds"])
    end = last
    most = min(max(_EACH * len(run.agents), _FEW), _MANY)
    if len(departures) > _WHOLE * most:
        end = departures[most]
        if rounds and period > 0:
            end = max(math.floor(end / period + 1e-9), math.floor(begin / period) + 1) * period
    return min(end, last) if end > begin else last


def _usual_size(view: str, run: RunHistory) -> tuple[int, int]:
    """Return the default size of a still picture; the height of a diagram grows with the number of agents."""
    count = len(run.agents)
    return (1000, 700) if view == "map" else (1200, max(420, min(1200, 150 + (90 if count <= 8 else 34) * count)))


# --- films ------------------------------------------------------------------------------------------------------------


def _times(run: RunHistory, film: Film, begin: float, end: float, fps: int) -> list[float]:
    """Return the film times (s) of all pictures of a film that shows the run from ``begin`` to ``end`` (s)."""
    columns = run.columns["depart"], run.until
    flights = zip(*(film.at(times[film.path]).tolist() for times in columns), strict=True)
    spans = film.chosen(float(film.at(begin)), float(film.leaves(end)), _MOST, flights)
    return [*itertools.chain(*(np.arange(first, last, 1 / fps).tolist() for first, last in spans)), spans[-1][1]]


def _write_film(
    path: str | Path, still: Still, size: tuple[int, int], times: list[float], fps: int, report: Report | None
) -> Path:
    """Write a film of the pictures at the film times ``times`` (s), with ``fps`` pictures per second."""
    ending, painter = format_of(path), Painter(*size, still.ground)
    shows = nullcontext(lambda number: None) if report is None else report(f"{ending}, pictures", len(times))
    with shows as done:

        def images() -> Iterator[Image.Image]:
            for number, time in enumerate(times):
                yield painter.paint(*still.at(time))
                done(number + 1)

        if ending == "mp4":
            return _write_mp4(path, size, images(), len(times), fps)
        some = [times[place * (len(times) - 1) // (_SAMPLES - 1)] for place in range(_SAMPLES)]
        palette = _palette([painter.paint(*still.at(time)) for time in some], _COLOURS)
        reduced = (each.quantize(palette=palette, dither=Image.Dither.NONE) for each in images())
        return _write_gif(path, reduced, len(times), fps)


def _write_gif(path: str | Path, images: Iterator[Image.Image], count: int, fps: int) -> Path:
    times = [1000 / fps] * (count - 1) + [1000 * _LAST]
    # Round the ends of pictures, not their durations, to the hundredths of a second of GIFs: errors do not add up.
    ends = [round(sum(times[: number + 1]) / 10) * 10 for number in range(count)]
    durations = [end - begin for begin, end in itertools.pairwise([0, *ends])]
    first = next(images)
    how: dict[str, Any] = {"append_images": images, "duration": durations, "loop": 0, "save_all": True}
    return write_pieces(path, _saved(first, format="gif", optimize=True, **how))


def _palette(images: Sequence[Image.Image], count: int) -> Image.Image:
    """Return a palette for images of one size: half of it their most frequent colours, the rest from quantization."""
    width, height = images[0].size
    board = Image.new("RGB", (width, len(images) * height))
    for place, image in enumerate(images):
        board.paste(image, (0, place * height))
    counted: list[tuple[int, Any]] = sorted(board.getcolors(width * height * len(images)) or (), reverse=True)
    rest = board.quantize(count, Image.Quantize.MAXCOVERAGE).convert("RGB").getcolors() or ()
    chosen: list[Any] = []
    for _, colour in (*counted[: count // 2], *rest):
        if all(math.dist(colour, other) > _ALIKE for other in chosen):
            chosen.append(colour)
    palette = Image.new("P", (1, 1))
    palette.putpalette([*itertools.chain(*chosen[:count])])
    return palette


def _write_mp4(path: str | Path, size: tuple[int, int], images: Iterator[Image.Image], count: int, fps: int) -> Path:
    """Make a film with ffmpeg in a temporary folder, because it must seek in its output file."""
    with tempfile.TemporaryDirectory(prefix="netsim-") as folder, tempfile.TemporaryFile() as errors:
        made = Path(folder) / "film.mp4"
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", str(fps), "-i", "-"]
        # Even sides and this pixel format work in every player. Without metadata, equal runs give equal files.
        target = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-threads", "1"]
        target += ["-map_metadata", "-1", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-movflags", "+faststart"]
        command = ["ffmpeg", "-v", "error", "-nostdin", "-y", *source, *target, str(made)]
        # A broken pipe means that ffmpeg failed, which is reported below with ffmpeg's message.
        with (
            suppress(BrokenPipeError),
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors) as process,
        ):
            assert process.stdin is not None
            for number, image in enumerate(images):
                # Repeat the last picture, so that it is shown for _LAST seconds.
                process.stdin.write(image.tobytes() * (round(_LAST * fps) if number == count - 1 else 1))
        errors.seek(0)
        said = " ".join(errors.read().decode(errors="replace").split())
        if process.returncode or not made.is_file():
            raise NetsimError(f"mp4: ffmpeg could not make it ({said[:200] or f'exit status {process.returncode}'})")
        return write_pieces(path, [made.read_bytes()])


def _saved(image: Image.Image, **how: Any) -> Iterator[bytes]:
    """Yield the bytes of an image file as a single piece, for `write_pieces`."""
    file = io.BytesIO()
    image.save(file, **how)
    yield file.getvalue()
