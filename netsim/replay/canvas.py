"""Convert a page script's drawing on a canvas (page/still/recorder.js) to an image, or to SVG."""

import functools
import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFont

__all__ = ["Call", "Painter", "svg", "width_of"]

Call = Mapping[str, Any]
"""A drawing call: a path or a text.

A path has ``codes`` (those of matplotlib) and ``points`` (x, y, x, y … in pixels from the upper left corner). A text
has ``text``, ``x``, ``y``, ``size``, ``style``, ``align`` and ``most``, the width into which it is squeezed (0: none).

Both have ``fill`` and ``stroke`` ("" for none), ``alpha``, ``width``, and ``clip`` (left, top, right, bottom; or None).
A path with a stroke has ``dash``, ``cap`` and ``join``; its stroke may be a gradient (``ends`` and ``stops``)."""

# Only this many letters of a long text are measured.
_MEASURED = 1000

_BOLD, _ITALIC = 1, 2

# A line whose colour changes along it is drawn in this many pieces.
_PIECES = 8

_MOVE, _LINE = 1, 2
# {path code: (SVG's letter, number of codes that form one command, number of points of the command in SVG)}
_LETTERS = {_MOVE: ("M", 1, 1), _LINE: ("L", 1, 1), 3: ("Q", 2, 2), 4: ("C", 3, 3), 79: ("Z", 1, 0)}


# --- letters ----------------------------------------------------------------------------------------------------------


def _file_of(style: int) -> str:
    """Return the path of a font file that matplotlib contains, so that pictures are the same on every machine."""
    import matplotlib

    name = ("Bold" if style & _BOLD else "") + ("Oblique" if style & _ITALIC else "")
    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"DejaVuSans{'-' if name else ''}{name}.ttf")


@functools.cache
def _font(style: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(_file_of(style), 100.0, layout_engine=ImageFont.Layout.BASIC)


def width_of(text: str, style: int) -> float:
    """Return the width of a text, in units of its font size.

    Of a very long text, only the first `_MEASURED` letters are measured, and the width is extrapolated.
    """
    if len(text) > _MEASURED:
        return width_of(text[:_MEASURED], style) * len(text) / _MEASURED
    return float(_font(style).getlength(text)) / 100


@functools.lru_cache(maxsize=20_000)
def _outline(text: str, style: int) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return the outline of a text, in units of its font size, with y upwards."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    points, codes = text_to_path.get_text_path(FontProperties(fname=_file_of(style)), text)
    return np.asarray(points, dtype=np.float64).reshape(-1, 2) / text_to_path.FONT_SCALE, np.asarray(codes, np.uint8)


# --- images -----------------------------------------------------------------------------------------------------------


class Painter:
    """Paints pictures of one size (in pixels) on a plain background, and caches the lower layer."""

    def __init__(self, width: int, height: int, ground: str) -> None:
        from matplotlib.backends.backend_agg import RendererAgg
        from matplotlib.transforms import Affine2D

        renderer: Any = RendererAgg(width, height, 72)  # type: ignore[no-untyped-call]
        self._renderer = renderer
        self._pixels: NDArray[np.uint8] = np.asarray(renderer.buffer_rgba())
        self._place = Affine2D().scale(1, -1).translate(0, height)
        self._height = height
        self._ground = [round(255 * each) for each in _rgba(ground, 1.0)]
        self._below: tuple[Sequence[Call] | None, NDArray[np.uint8]] = (None, self._pixels)

    def paint(self, below: Sequence[Call], above: Sequence[Call]) -> Image.Image:
        """Return an opaque picture of both layers; the cached lower layer is reused if ``below`` is the same object."""
        if below is self._below[0]:
            self._pixels[:] = self._below[1]
        else:
            self._pixels[:] = self._ground
            self._play(below)
            self._below = below, self._pixels.copy()
        self._play(above)
        return Image.fromarray(self._pixels[:, :, :3].copy())

    def _play(self, calls: Sequence[Call]) -> None:
        for call in calls:
            for points, codes, each in _letters(call) if "text" in call else _shapes(call):
                self._draw(points, codes, each)

    def _draw(self, points: NDArray[np.float64], codes: Any, call: Call) -> None:
        from matplotlib.path import Path as Outline
        from matplotlib.transforms import Bbox

        pen, stroke, dash = self._renderer.new_gc(), call["stroke"], call.get("dash", ())
        pen.set_linewidth(call["width"] if stroke else 0.0)
        if stroke:
            pen.set_foreground(_rgba(stroke, call["alpha"]), isRGBA=True)
            pen.set_capstyle(call.get("cap", "round"))
            pen.set_joinstyle(call.get("join", "round"))
        if dash:
            pen.set_dashes(0, dash)
        if call["clip"]:
            left, top, right, bottom = call["clip"]
            pen.set_clip_rectangle(Bbox.from_extents(left, self._height - bottom, right, self._height - top))
        pen.set_antialiased(True)
        pen.set_snap(False)
        fill = _rgba(call["fill"], call["alpha"]) if call["fill"] else None
        self._renderer.draw_path(pen, Outline(points, codes), self._place, fill)


def _shapes(call: Call) -> Iterator[tuple[NDArray[np.float64], Any, Call]]:
    """Yield the points, codes and call of a path; split a line whose colour changes along it into pieces."""
    if not call["codes"]:
        return
    points = np.array(call["points"], dtype=np.float64).reshape(-1, 2)
    if not isinstance(call["stroke"], Mapping):
        yield points, call["codes"], call
        return
    (_, begin), (_, end) = call["stroke"]["stops"]
    (from_x, from_y), (to_x, to_y) = points[:2]
    shares = np.linspace(0.0, 1.0, _PIECES + 1)
    along = np.stack([from_x + (to_x - from_x) * shares, from_y + (to_y - from_y) * shares], axis=1)
    for number in range(_PIECES):
        alpha = _strength(begin) + (_strength(end) - _strength(begin)) * (number + 0.5) / _PIECES
        how = {**call, "stroke": end, "alpha": call["alpha"] * alpha}
        yield along[number : number + 2], [_MOVE, _LINE], how


def _letters(call: Call) -> Iterator[tuple[NDArray[np.float64], Any, Call]]:
    """Yield the points, codes and call of a text's outline; nothing if the outline is empty."""
    points, codes = _outline(_shown(call["text"]), call["style"])
    if len(codes):
        wide = width_of(call["text"], call["style"])
        across = call["most"] / wide if call["most"] else call["size"]
        left = call["x"] - across * wide * {"left": 0.0, "center": 0.5, "right": 1.0}[call["align"]]
        yield points * (across, -call["size"]) + (left, call["y"]), codes, call


@functools.lru_cache(maxsize=5000)
def _rgba(colour: str, alpha: float) -> tuple[float, float, float, float]:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue, alpha


def _strength(colour: str) -> float:
    """Return the opacity (0 to 1) of a colour, ``#rrggbb`` or ``#rrggbbaa``."""
    return int(colour[7:9] or "ff", 16) / 255


# --- SVG --------------------------------------------------------------------------------------------------------------

_FAMILY = "'DejaVu Sans', Verdana, system-ui, sans-serif"


def svg(
    size: tuple[int, int],
    about: tuple[str, str],
    ground: str,
    calls: Sequence[Call],
    dark: tuple[str, Sequence[Call]] | None = None,
) -> str:
    """Return a picture as SVG; with ``dark``, it also contains the colours of the dark theme.

    ``about`` holds the title and description for screen readers. The light colours are attributes, which every program
    reads. The dark colours are a style sheet for the dark colour scheme, which only browsers apply.
    """
    colours, (width, height) = _Colours(), size
    pairs = zip(calls, calls if dark is None else dark[1], strict=True)
    under = f'<rect width="{width}" height="{height}"{colours(fill=(ground, dark[0] if dark else ground))}/>'
    body = [under, *(_as_svg(one, other, colours) for one, other in pairs)]
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="{_FAMILY}">',
        f"<title>{_text(about[0])}</title>",
        f"<desc>{_text(about[1])}</desc>",
    ]
    if colours.classes:
        rules = "".join(f".{name}{{{what}:{colour}}}" for (what, _, colour), name in colours.classes.items())
        head.append(f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>")
    if colours.definitions:
        definitions = (text.replace("ID", name, 1) for text, name in colours.definitions.items())
        head.append(f"<defs>{''.join(definitions)}</defs>")
    return "\n".join([*head, *filter(None, body), "</svg>"]) + "\n"


class _Colours:
    """Collects the definitions of an SVG, such as gradients, and a class for each colour that differs by theme."""

    def __init__(self) -> None:
        self.classes: dict[tuple[str, str, str], str] = {}
        self.definitions: dict[str, str] = {}

    def __call__(self, **pairs: tuple[str, str]) -> str:
        """Return the SVG attributes for colours given as, for example, ``fill=(light colour, dark colour)``."""
        found, names = "", []
        for what, (light, dark) in pairs.items():
            found += f' {what}="{light or "none"}"' if light or what == "fill" else ""
            if light != dark:
                names.append(self.classes.setdefault((what, light, dark), f"c{len(self.classes)}"))
        return found + (f' class="{" ".join(names)}"' if names else "")

    def define(self, text: str) -> str:
        """Store a definition, whose text contains ``ID`` as placeholder of its id, and return a reference to it."""
        self.definitions.setdefault(text, f"d{len(self.definitions)}")
        return f"url(#{self.definitions[text]})"


def _as_svg(call: Call, dark: Call, colours: _Colours) -> str:
    """Return a drawing call as an SVG element; ``dark`` is the same call in the dark theme."""
    stroke, alpha, clip = call["stroke"], call["alpha"], call["clip"]
    if isinstance(stroke, Mapping):
        how = f' fill="none" stroke="{_gradient(stroke, dark["stroke"], colours)}"'
    else:
        how = colours(fill=(call["fill"], dark["fill"]), **({"stroke": (stroke, dark["stroke"])} if stroke else {}))
    how += f' stroke-width="{_number(call["width"])}"' if stroke else ""
    how += f' opacity="{_number(alpha)}"' if alpha < 1 else ""
    if clip:
        left, top, right, bottom = map(_number, (clip[0], clip[1], clip[2] - clip[0], clip[3] - clip[1]))
        box = f'<rect x="{left}" y="{top}" width="{right}" height="{bottom}"/>'
        how += f' clip-path="{colours.define(f"""<clipPath id="ID">{box}</clipPath>""")}"'
    if "text" in call:
        return _word_as_svg(call, how)
    if not call["codes"]:
        return ""
    if stroke:
        how += f' stroke-dasharray="{" ".join(map(_number, call["dash"]))}"' if call["dash"] else ""
        how += "".join(f' stroke-line{name}="round"' for name in ("cap", "join") if call[name] == "round")
    return f'<path d="{_path(call["codes"], call["points"])}"{how}/>'


def _word_as_svg(word: Call, how: str) -> str:
    how = f' x="{_number(word["x"])}" y="{_number(word["y"])}" font-size="{_number(word["size"])}"{how}'
    how += ' font-weight="700"' if word["style"] & _BOLD else ""
    how += ' font-style="italic"' if word["style"] & _ITALIC else ""
    how += {"left": "", "center": ' text-anchor="middle"', "right": ' text-anchor="end"'}[word["align"]]
    how += f' textLength="{_number(word["most"])}" lengthAdjust="spacingAndGlyphs"' if word["most"] else ""
    # A stroked text is the outline drawn behind the same text, so hide it from screen readers.
    how += ' stroke-linejoin="round" aria-hidden="true"' if word["stroke"] else ""
    return f"<text{how}>{_text(word['text'])}</text>"


def _gradient(light: Mapping[str, Any], dark: Mapping[str, Any], colours: _Colours) -> str:
    """Define a gradient and return the reference to it."""
    ends = zip(("x1", "y1", "x2", "y2"), map(_number, light["ends"]), strict=True)
    where = " ".join(f'{name}="{value}"' for name, value in ends)
    stops = []
    for (share, one), (_, other) in zip(light["stops"], dark["stops"], strict=True):
        ink = colours(**{"stop-color": (one[:7], other[:7])})
        stops.append(f'<stop offset="{share}"{ink} stop-opacity="{_number(_strength(one))}"/>')
    return colours.define(
        f'<linearGradient id="ID" gradientUnits="userSpaceOnUse" {where}>{"".join(stops)}</linearGradient>'
    )


def _path(codes: Sequence[int], points: Sequence[float]) -> str:
    """Return a path in SVG's syntax."""
    found, place = [], 0
    while place < len(codes):
        letter, count, some = _LETTERS[codes[place]]
        found.append(letter + " ".join(map(_number, points[2 * place : 2 * (place + some)])))
        place += count
    return "".join(found)


def _number(value: float) -> str:
    """Format a number with one decimal, or two if it is below 1, without trailing zeros."""
    text = f"{value:.{1 if abs(value) >= 1 else 2}f}"
    return text.rstrip("0").rstrip(".") if text.strip("-0.") else "0"


def _shown(text: str) -> str:
    """Replace or escape the characters of a text that cannot be shown or encoded."""
    plain = "".join(each if each.isprintable() else "\ufffd" for each in text)
    return plain.encode(errors="backslashreplace").decode()


def _text(text: str) -> str:
    """Escape a text for SVG, and replace the characters that XML forbids."""
    return html.escape(_shown(text), quote=False)
