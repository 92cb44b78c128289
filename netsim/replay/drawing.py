"""A drawing of lines, shapes and words, in pixels from the upper left corner: written as SVG, or painted."""

import functools
import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

if TYPE_CHECKING:
    from matplotlib.path import Path as Outline
    from matplotlib.transforms import Affine2D

__all__ = ["Drawing", "Pen", "paint", "svg", "width_of"]

Colours = Mapping[str, str]
Point = tuple[float, float]

# The rim of a text in the colour of the ground, to be read above lines.
_RIM = 2.0

# Letters of a text that are measured.
_MEASURED = 1000

# How far a corner's control point is from its end, for a quarter of a circle as a cubic curve.
_ROUND = 0.5523


@dataclass(frozen=True)
class Pen:
    """How a line or shape is drawn: colours by name, or as ``#rrggbb``; "" for none."""

    line: str = ""
    fill: str = ""
    width: float = 1.0
    dash: tuple[float, ...] = ()
    rounded: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Shape:
    """A line through some points, a closed one, a circle (``radius``), or a box with round corners (``radius``)."""

    what: str
    points: tuple[Point, ...]
    pen: Pen
    radius: float = 0.0


@dataclass(frozen=True)
class Word:
    """A text on one line, whose base line begins (or has its middle, or end) at a point."""

    x: float
    y: float
    text: str
    size: float
    colour: str
    bold: bool = False
    italic: bool = False
    anchor: str = "start"
    rim: str = "paper"


@dataclass
class Drawing:
    """Shapes, and words above all of them, on a ground of the colour ``paper``.

    ``title`` and ``about`` are for those who cannot see it.
    """

    width: float
    height: float
    title: str = ""
    about: str = ""
    shapes: list[Shape] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)

    def line(self, points: Sequence[Point], pen: Pen, *, closed: bool = False) -> None:
        """Add a line through points; with ``closed``, a polygon."""
        self.shapes.append(Shape("polygon" if closed else "line", tuple(points), pen))

    def circle(self, x: float, y: float, radius: float, pen: Pen) -> None:
        """Add a circle around a point."""
        self.shapes.append(Shape("circle", ((x, y),), pen, radius))

    def box(self, left: float, top: float, right: float, bottom: float, pen: Pen, radius: float = 0.0) -> None:
        """Add a box."""
        self.shapes.append(Shape("box", ((left, top), (right, bottom)), pen, radius))

    def word(self, x: float, y: float, text: str, size: float, colour: str = "ink", **how: Any) -> None:
        """Add a text; for ``how`` see `Word`."""
        if text:
            self.words.append(Word(x, y, text, size, colour, **how))

    def extend(self, other: "Drawing") -> None:
        """Add all that another drawing has."""
        self.shapes += other.shapes
        self.words += other.words


# --- letters ----------------------------------------------------------------------------------------------------------


@functools.cache
def _font(size: float, bold: bool, italic: bool) -> ImageFont.FreeTypeFont:
    """Return a font that comes with matplotlib, so that a picture is the same on every machine."""
    import matplotlib

    style = ("Bold" if bold else "") + ("Oblique" if italic else "")
    name = f"DejaVuSans{'-' if style else ''}{style}.ttf"
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / name), size, layout_engine=ImageFont.Layout.BASIC)


@functools.lru_cache(maxsize=10_000)
def width_of(text: str, size: float, bold: bool = False, italic: bool = False) -> float:
    """Return a text's width in pixels: of a small one the letters of an image are wider than those of an SVG.

    Of a text that is longer than any picture is wide only the beginning is measured; the rest counts as much.
    """
    if len(text) > _MEASURED:
        return width_of(text[:_MEASURED], size, bold, italic) * len(text) / _MEASURED
    exact = _font(100.0, bold, italic).getlength(text) * size / 100
    return max(exact, _font(round(size, 2), bold, italic).getlength(text))


# --- SVG --------------------------------------------------------------------------------------------------------------

_FAMILY = "'DejaVu Sans', Verdana, system-ui, sans-serif"


def svg(drawing: Drawing, light: Colours, dark: Colours | None = None) -> str:
    """Return a drawing as SVG in some colours; with ``dark``, in those where the reader's colour scheme is dark.

    Colours stand in attributes, which every program reads, and in a style for the dark scheme, which browsers follow.
    """
    inks = _Inks(light, dark is not None)
    ground = Shape("box", ((0.0, 0.0), (drawing.width, drawing.height)), Pen(fill="paper"))
    body = [f"<{_outline_as_svg(each)}{_pen_as_svg(each.pen, inks)}/>" for each in (ground, *drawing.shapes)]
    body += [text for word in drawing.words for text in _word_as_svg(word, inks)]
    width, height = _number(drawing.width), _number(drawing.height)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="{_FAMILY}">',
        f"<title>{_text(drawing.title)}</title>",
        f"<desc>{_text(drawing.about)}</desc>",
    ]
    if dark is not None:
        rules = "".join(f".{name[0]}-{colour}{{{name}:{dark[colour]}}}" for name, colour in inks.used)
        head.append(f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>")
    return "\n".join([*head, *body, "</svg>"]) + "\n"


class _Inks:
    """Writes colours as attributes; with ``classes`` named ones also have a class, and are kept in ``used``."""

    def __init__(self, light: Colours, classes: bool) -> None:
        self._light, self._classes = light, classes
        self.used: dict[tuple[str, str], None] = {}

    def __call__(self, **names: str) -> str:
        """Return the attributes of a fill and a stroke."""
        values = "".join(f' {what}="{_value(name, self._light)}"' for what, name in names.items())
        named = [(what, name) for what, name in names.items() if not name.startswith("#")]
        if not self._classes or not named:
            return values
        self.used |= dict.fromkeys(named)
        return f'{values} class="{" ".join(f"{what[0]}-{name}" for what, name in named)}"'


def _outline_as_svg(shape: Shape) -> str:
    x, y = shape.points[0]
    if shape.what == "circle":
        return f'circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(shape.radius)}"'
    if shape.what == "box":
        right, bottom = shape.points[1]
        corner = f' rx="{_number(shape.radius)}"' if shape.radius else ""
        size = f'width="{_number(right - x)}" height="{_number(bottom - y)}"'
        return f'rect x="{_number(x)}" y="{_number(y)}" {size}{corner}'
    points = " ".join(f"{_number(px)} {_number(py)}" for px, py in shape.points[1:])
    return f'path d="M{_number(x)} {_number(y)}L{points}{"Z" if shape.what == "polygon" else ""}"'


def _pen_as_svg(pen: Pen, inks: _Inks) -> str:
    text = inks(**({"fill": pen.fill} if pen.fill else {}), **({"stroke": pen.line} if pen.line else {}))
    text += "" if pen.fill else ' fill="none"'
    if pen.line:
        text += f' stroke-width="{_number(pen.width)}"'
        text += f' stroke-dasharray="{" ".join(map(_number, pen.dash))}"' if pen.dash else ""
        text += ' stroke-linecap="round" stroke-linejoin="round"' if pen.rounded else ""
    return text + (f' opacity="{_number(pen.opacity)}"' if pen.opacity < 1 else "")


def _word_as_svg(word: Word, inks: _Inks) -> Iterator[str]:
    how = f' x="{_number(word.x)}" y="{_number(word.y)}" font-size="{_number(word.size)}"'
    how += ' font-weight="700"' if word.bold else ""
    how += ' font-style="italic"' if word.italic else ""
    how += f' text-anchor="{word.anchor}"' if word.anchor != "start" else ""
    content = _text(word.text)
    if word.rim:
        # The rim is a text of its own below: not every program can draw a text's stroke behind it.
        rim = f'{inks(fill=word.rim, stroke=word.rim)} stroke-width="{2 * _RIM:g}" stroke-linejoin="round"'
        yield f'<text aria-hidden="true"{how}{rim}>{content}</text>'
    yield f"<text{how}{inks(fill=word.colour)}>{content}</text>"


def _number(value: float) -> str:
    """Return a number with one digit after the point, below 1 two, and none where they are zeros."""
    text = f"{value:.{1 if abs(value) >= 1 else 2}f}"
    return text.rstrip("0").rstrip(".") if text.strip("-0.") else "0"


def _text(text: str) -> str:
    """Return text as SVG has it: without a tag, and without characters that XML forbids."""
    plain = "".join(each if each.isprintable() else "\ufffd" for each in text)
    return html.escape(plain.encode(errors="backslashreplace").decode(), quote=False)


# --- images -----------------------------------------------------------------------------------------------------------


def paint(drawing: Drawing, colours: Colours) -> Image.Image:
    """Return a drawing as an image without transparency."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.transforms import Affine2D

    width, height = round(drawing.width), round(drawing.height)
    renderer: Any = RendererAgg(width, height, 72)  # type: ignore[no-untyped-call]
    place = Affine2D().scale(1, -1).translate(0, height)
    ground = Shape("box", ((0.0, 0.0), (drawing.width, drawing.height)), Pen(fill="paper"))
    for shape in (ground, *drawing.shapes):
        _stroke(renderer, shape, colours, place)
    image = Image.fromarray(np.asarray(renderer.buffer_rgba())).convert("RGB")
    pencil = ImageDraw.Draw(image)
    for word in drawing.words:
        _letter(pencil, word, colours)
    return image


def _stroke(renderer: Any, shape: Shape, colours: Colours, place: "Affine2D") -> None:
    pen = shape.pen
    graphics = renderer.new_gc()
    graphics.set_alpha(pen.opacity)
    graphics.set_linewidth(pen.width if pen.line else 0.0)
    if pen.line:
        graphics.set_foreground((*_shares(_value(pen.line, colours)), pen.opacity), isRGBA=True)
    if pen.dash:
        graphics.set_dashes(0, list(pen.dash))
    graphics.set_capstyle("round" if pen.rounded else "butt")
    graphics.set_joinstyle("round" if pen.rounded else "miter")
    graphics.set_antialiased(True)
    graphics.set_snap(False)
    fill = (*_shares(_value(pen.fill, colours)), pen.opacity) if pen.fill else None
    renderer.draw_path(graphics, _outline(shape), place, fill)
    graphics.restore()


def _outline(shape: Shape) -> "Outline":
    from matplotlib.path import Path as Outline

    if shape.what == "circle":
        (x, y), radius = shape.points[0], shape.radius
        return Outline.circle((x, y), radius)
    if shape.what == "box":
        return _box(*shape.points[0], *shape.points[1], shape.radius)
    points = [*shape.points, shape.points[0]] if shape.what == "polygon" else list(shape.points)
    return Outline(points, closed=shape.what == "polygon")


def _box(left: float, top: float, right: float, bottom: float, radius: float) -> "Outline":
    """Return a box's outline."""
    from matplotlib.path import Path as Outline

    r = min(radius, (right - left) / 2, (bottom - top) / 2)
    if r <= 0:
        return Outline([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], closed=True)
    c = r * (1 - _ROUND)
    points = [(left + r, top), (right - r, top)]
    points += [(right - c, top), (right, top + c), (right, top + r), (right, bottom - r)]
    points += [(right, bottom - c), (right - c, bottom), (right - r, bottom), (left + r, bottom)]
    points += [(left + c, bottom), (left, bottom - c), (left, bottom - r), (left, top + r)]
    points += [(left, top + c), (left + c, top), (left + r, top), (left + r, top)]
    codes = [Outline.MOVETO, *([Outline.LINETO, *[Outline.CURVE4] * 3] * 4), Outline.CLOSEPOLY]
    return Outline(points, codes)


def _letter(pencil: ImageDraw.ImageDraw, word: Word, colours: Colours) -> None:
    font = _font(round(word.size, 2), word.bold, word.italic)
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[word.anchor]
    ground, colour = (_value(name, colours) for name in (word.rim or "paper", word.colour))
    rim = round(_RIM) if word.rim else 0
    pencil.text((word.x, word.y), word.text, colour, font, anchor=anchor, stroke_width=rim, stroke_fill=ground)


def _value(name: str, colours: Colours) -> str:
    return name if name.startswith("#") else colours[name]


def _shares(colour: str) -> tuple[float, ...]:
    """Return the red, green and blue of a colour, from 0 to 1."""
    return tuple(each / 255 for each in ImageColor.getrgb(colour))
