"""Pictures and films of a run, as described in docs/replay.md."""

import asyncio
import base64
import io
import itertools
import json
import re
import shlex
import shutil
import stat
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
from PIL import Image, ImageFont

import netsim
from netsim import BadInput, Link, NetsimError, Network, topology
from netsim.draw import Role
from netsim.faults import Crash
from netsim.replay import still
from netsim.replay.canvas import Call, Painter, svg, width_of
from netsim.replay.film import Film, film_of
from netsim.replay.html import tokens
from netsim.replay.picture import Wanted, write_picture
from netsim.replay.run_history import RunHistory
from netsim.replay.still import Still
from netsim.run import Run
from netsim.testing import Rounder
from tests import chromium
from tests.command import ROOT, call
from tests.netsim.replay.votes import votes


@pytest.fixture(scope="module")
def run() -> Run:
    graph = topology.random_geometric(6, radius=0.8, seed=2)
    network = Network(graph, Link(loss=0.2, latency=0.03), round_period=0.1, seed=1)
    network.watch({"heard": lambda agent: len(agent.heard)})
    return network.run({i: Rounder(3) for i in graph}, trace=True)


def diagram(size: tuple[int, int] = (1200, 600), of: Any = None, begin: float = 0.0, end: float = 0.36) -> list[Call]:
    """Return the drawing calls of a space–time diagram, by default of the recorded vote."""
    found = Still(*(of or votes()), view="spacetime", theme="light", size=size, k=1.0, begin=begin, end=end)
    return [*itertools.chain(*found.at(None))]


def shown_at(time: float, of: Any = None) -> list[Call]:
    """Return the drawing calls of the map at a time."""
    meta, columns = of or votes()
    table = film_of(RunHistory(meta, columns))
    size = (900, 600)
    found = Still({**meta, "film": table}, columns, view="map", theme="light", size=size, k=1.0, begin=0.0, end=0.36)
    return [*itertools.chain(*found.at(float(Film(table).at(time))))]


def words(calls: list[Call]) -> list[Call]:
    return [each for each in calls if "text" in each and each["fill"]]


def texts(calls: list[Call]) -> list[str]:
    return [each["text"] for each in words(calls)]


def light(name: str, number: int) -> str:
    colour: str = tokens()[name][number]["light"]
    return colour


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("gif", b"GIF89a")])
def test_the_same_run_gives_the_same_bytes(run: Run, tmp_path: Path, ending: str, begins: bytes) -> None:
    one, two = (
        run.picture(tmp_path / f"{name}.{ending}", size=(320, 240), fps=2 if ending == "gif" else None) for name in "ab"
    )
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes().startswith(begins)


def test_a_film_takes_25_seconds_at_most(tmp_path: Path) -> None:
    graph = topology.random_geometric(6, radius=0.8, seed=2)
    network = Network(graph, Link(loss=0.2, latency=0.03), round_period=0.1, seed=1)
    run = network.run({i: Rounder(12) for i in graph}, trace=True)
    with Image.open(run.picture(tmp_path / "run.gif", size=(320, 240), fps=2)) as film:
        durations = []
        for number in range(film.n_frames):
            film.seek(number)
            durations.append(film.info["duration"])
    assert 24_000 <= sum(durations) <= 25_500
    assert durations[-1] >= 1000, "the last picture stays"
    assert film.size == (320, 240)


def test_a_film_of_the_diagram_is_pale_after_its_cursor(tmp_path: Path) -> None:
    write_picture(*votes(), tmp_path / "votes.gif", Wanted(view="spacetime", fps=1))
    with Image.open(tmp_path / "votes.gif") as film:
        film.seek(0)
        first = np.asarray(film.convert("L"))
        film.seek(film.n_frames - 1)
        last = np.asarray(film.convert("L"))
    middle = (slice(100, 500), slice(300, 800))
    assert first[middle].mean() > last[middle].mean() + 5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_common_colours_are_exact_in_a_palette(theme: str, tmp_path: Path) -> None:
    colours = [tokens()["themes"][theme]["paper"], *(each[theme] for each in tokens()["roles"][:3])]
    paper, *roles = (tuple(int(each[place : place + 2], 16) for place in (1, 3, 5)) for each in colours)
    for ending, wanted in (("png", Wanted(view="map", theme=theme, begin=0.15)), ("gif", Wanted(fps=1, theme=theme))):
        write_picture(*votes(), tmp_path / f"votes.{ending}", wanted)
        with Image.open(tmp_path / f"votes.{ending}") as image:
            found = image.convert("RGB").getcolors(1 << 20) or ()
        assert max(found)[1] == paper
        assert set(roles) <= {colour for _, colour in found}


def test_pictures_have_the_size_that_is_asked(run: Run, tmp_path: Path) -> None:
    for view in ("map", "spacetime"):
        with Image.open(run.picture(tmp_path / "run.png", view=view, size=(400, 300))) as image:
            assert image.size == (400, 300)
        drawn = ElementTree.parse(run.picture(tmp_path / "run.svg", view=view, size=(400, 300))).getroot()
        assert (drawn.get("width"), drawn.get("height")) == ("400", "300")


def test_an_svg_follows_the_colours_of_its_reader_unless_a_theme_is_given(tmp_path: Path) -> None:
    dark_paper = tokens()["themes"]["dark"]["paper"]
    for theme, follows in ((None, True), ("light", False), ("dark", False)):
        write_picture(*votes(), tmp_path / "votes.svg", Wanted(theme=theme))
        text = (tmp_path / "votes.svg").read_text(encoding="utf-8")
        assert ("prefers-color-scheme" in text) == follows
        assert (dark_paper in text) == (theme != "light")
        ElementTree.fromstring(text)


@pytest.mark.parametrize(
    ("ending", "wanted", "named"),
    [
        ("svg", {"view": "maps"}, "view = 'maps': must be one of map, spacetime"),
        ("svg", {"theme": "blue"}, "theme = 'blue': must be one of light, dark"),
        ("svg", {"begin": -1.0}, "from = -1.0: must be a number >= 0"),
        ("svg", {"begin": 9.0}, "from = 9.0: must be at most 0.36"),
        ("svg", {"end": 9.0}, "to = 9.0: must be at most 0.36"),
        ("gif", {"begin": 0.2, "end": 0.1}, "from = 0.2: must be less than to = 0.1"),
        ("png", {"view": "map", "end": 0.1}, "to = 0.1: must be left out"),
        ("png", {"fps": 3}, "fps = 3: must be left out"),
        ("gif", {"fps": 0}, "fps = 0: must be a whole number from 1 to 50"),
        ("png", {"size": (10, 10)}, "size, width = 10: must be a whole number from 240"),
        ("png", {"size": (10**9, 10**9)}, "size, width = 1000000000: must be"),
        ("jpg", {}, "must be a name that ends in .gif, .mp4, .svg, .png"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(
    tmp_path: Path, ending: str, wanted: dict[str, Any], named: str
) -> None:
    with pytest.raises(BadInput) as error:
        write_picture(*votes(), tmp_path / f"votes.{ending}", Wanted(**wanted))
    assert named in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_run_without_a_trace_has_no_picture(tmp_path: Path) -> None:
    graph = topology.ring(3)
    run = Network(graph).run({i: Rounder(1) for i in graph})
    with pytest.raises(BadInput, match=r"trace = False: must be True"):
        run.picture(tmp_path / "run.png")


def test_mp4_without_ffmpeg_names_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="requires the program ffmpeg"):
        run.picture(tmp_path / "run.mp4")


@pytest.mark.parametrize(("script", "works"), [('cat > "$LAST"', True), ("echo no such codec >&2; exit 3", False)])
def test_ffmpeg_gets_every_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, works: bool) -> None:
    program = tmp_path / "ffmpeg"
    program.write_text(f"#!/bin/sh\nfor LAST; do :; done\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    path = tmp_path / "votes.mp4"
    path.write_bytes(b"before")
    wanted = Wanted(size=(320, 200), fps=1)
    if not works:
        with pytest.raises(NetsimError, match=r"mp4: ffmpeg could not make it \(no such codec\)"):
            write_picture(*votes(), path, wanted)
        assert path.read_bytes() == b"before"
        return
    write_picture(*votes(), path, wanted)
    pictures, rest = divmod(len(path.read_bytes()), 320 * 200 * 3)
    assert (rest, 24 <= pictures <= 28) == (0, True)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_pictures_into_the_run_folder(tmp_path: Path) -> None:
    call("run", "flooding", "--agents", "6", "--radius", "0.8", "--trace", "--out", "run", cwd=tmp_path)
    done = call("replay", "run", "--svg", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == str(Path("run") / "replay.svg")
    assert "flooding: tree-ack" in (tmp_path / "run" / "replay.svg").read_text(encoding="utf-8")
    done = call("replay", "run", "--gif", "--fps", "1", "--size", "300x200", "--algorithm", "tree", cwd=tmp_path)
    assert (tmp_path / "run" / "replay-tree.gif").is_file()
    assert "gif, pictures: " in done.stderr
    for flags, said in (
        (["--view", "map"], "view = map: must go with --gif, --mp4, --svg or --png"),
        (["--png", "--size", "10by10"], "size = '10by10': must be WIDTHxHEIGHT in pixels"),
        (["--png", "--out", "a.svg"], "out = 'a.svg': must be a name that ends in .png"),
        (["--out", "a.PNG"], "out = 'a.PNG': must be a name of a page, such as replay.html; --png makes a picture"),
        (["--png", "--from", "99"], "from = 99.0: must be at most"),
    ):
        done = call("replay", "run", *flags, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_pictures_at_the_top_are_what_their_commands_make(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    for name in re.findall(r"!\[.*?\]\((.*?\.gif)\)", text):
        picture = (ROOT / page).parent / name
        commands = re.findall(r"`netsim ((?:run|replay)\s.*?)`", text[text.index(name) :], re.S)[:2]
        made = [call(*shlex.split(command), cwd=tmp_path).stdout.splitlines() for command in commands]
        assert picture.stat().st_size < 1_500_000
        with Image.open(picture) as one, Image.open(tmp_path / made[1][0]) as two:
            assert (one.n_frames, one.size) == (two.n_frames, two.size)
            for number in (0, one.n_frames // 2, one.n_frames - 1):
                one.seek(number)
                two.seek(number)
                first, second = (np.asarray(each.convert("L"), dtype=np.float64) for each in (one, two))
                # Different versions of Pillow may render letters slightly differently.
                assert np.abs(first - second).mean() < 1


# --- the space–time diagram -------------------------------------------------------------------------------------------


def test_the_diagram_says_what_happened() -> None:
    said = texts(diagram())
    for text in ("candidate t1", "leader t1", "leader t2", "“becomes leader”", "“steps down”", "crash"):
        assert text in said
    assert "restart, follower t2" in said, "an agent returns in a state"
    assert "partition: 0 1 | 2 3 4, 0.084 to 0.264 s" in said
    assert said.count("hb t1 to 2 3 4") == 2, "frames of one fan that end at a cut share one label"
    assert "0.36 s, 42 frames, 16 of them did not arrive" in said
    assert {"vote?", "vote", "hb", "lost on the way", "link cut", "receiver down", "down"} <= set(said), "the legend"


def test_a_role_taken_in_the_last_instant_ends_the_line_after_a_crash(tmp_path: Path) -> None:
    """A search stops a run at a violation, so the state that violates the invariant comes at the last instant."""

    class Node(netsim.Agent):
        draw: ClassVar = {"role": Role(usual="follower")}
        role = "follower"

        async def run(self) -> None:
            await asyncio.sleep(1.0)
            self.role = "leader"
            await asyncio.sleep(9.0)

    path = topology.path(2)
    network = Network(path, Link(latency=0.1), faults=[Crash(0, at=0.5, until=1.0)])
    run = network.run({i: Node() for i in path}, until=2.0, trace=True)
    assert run.states["time_s"].iloc[-1] == 2.0
    drawn = run.picture(str(tmp_path / "run.svg"), view="spacetime")
    text = [each.text for each in ElementTree.parse(drawn).iter() if each.tag.endswith("text")]
    # Twice at the changes, twice at the ends of the lines, and once in the legend.
    assert text.count("leader") == 5


def box(word: Call) -> tuple[float, float, float, float]:
    wide = word["most"] or word["size"] * width_of(word["text"], word["style"])
    left = word["x"] - wide * {"left": 0.0, "center": 0.5, "right": 1.0}[word["align"]]
    return left, word["y"] - 0.7 * word["size"], left + wide, word["y"]


@pytest.mark.parametrize("size", [(1200, 600), (700, 420), (1920, 1080)])
def test_no_word_covers_another(size: tuple[int, int]) -> None:
    drawn = words(diagram(size))
    for one, other in itertools.combinations(drawn, 2):
        a, b = box(one), box(other)
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, f"{one['text']} and {other['text']}"
    for word in drawn:
        assert box(word)[0] >= 0
        assert box(word)[2] <= size[0] + 1, word["text"]


@pytest.mark.parametrize("seconds", [1e-8, 1e6, 2e9])
def test_the_last_time_is_not_cut_off(seconds: float) -> None:
    meta, columns = votes()
    # Labels at the right edge would need room there, so the run has none.
    story = meta | {"states": meta["states"] | {"values": {}}}
    for word in words(diagram(of=(story, columns), end=seconds)):
        assert box(word)[0] >= 0
        assert box(word)[2] <= 1200, word["text"]


def test_only_a_stretch_of_time_is_shown() -> None:
    said = texts(diagram(begin=0.1, end=0.2))
    assert any(each.startswith("0.1 to 0.2 s of 0.36 s, ") for each in said)
    assert "leader t2" in said
    assert "crash" not in said


def test_a_lifeline_has_its_roles_colour_and_weight() -> None:
    drawn = {each["stroke"]: each["width"] for each in diagram() if "codes" in each and len(each["codes"]) == 2}
    # The roles in this order are: follower (the usual role of most agents), candidate, leader.
    for role in tokens()["roles"][:3]:
        assert drawn[role.get("line", role)["light"]] == pytest.approx(role["weight"])
    assert tokens()["routine"]["light"] in drawn, "what most frames are is routine"


def test_sides_of_a_partition_are_neighbours() -> None:
    meta, columns = votes()
    meta["faults"][0]["sides"] = [[0, 3], [1, 2, 4]]
    lanes = {each["text"]: each["y"] for each in words(diagram(of=(meta, columns))) if each["align"] == "right"}
    assert sorted("01234", key=lanes.__getitem__) == ["0", "3", "1", "2", "4"]


def test_a_dense_run_keeps_lifelines_crosses_and_notes() -> None:
    meta, columns = votes()
    many = 4000
    rng = np.random.default_rng(1)
    start = np.sort(rng.uniform(0, 0.34, many))
    sender = rng.integers(0, 5, many)
    crowd = {name: np.zeros(many, dtype=column.dtype) for name, column in columns.items()}
    crowd |= {"start": start, "depart": start, "end": start + 0.01, "sender": sender, "receiver": (sender + 1) % 5}
    crowd["cause"][::100] = 1
    drawn = diagram(of=(meta, crowd))
    assert "“becomes leader”" in texts(drawn)
    assert not any(each.startswith("vote? t") for each in texts(drawn)), "no labels"
    lost = tokens()["causes"]["lost"]["light"]
    assert sum(each["stroke"] == lost for each in drawn) >= many // 100
    assert "0.36 s, 4,000 frames, 40 of them did not arrive" in texts(drawn)


def test_a_long_run_is_shown_from_its_beginning(tmp_path: Path) -> None:
    meta, columns = votes()
    many = 2000
    start = np.linspace(0, 100, many)
    long = {name: np.zeros(many, dtype=column.dtype) for name, column in columns.items()}
    long |= {"start": start, "depart": start, "end": start + 0.01, "receiver": np.ones(many, dtype=np.int64)}
    meta["ended_at"] = 101.0
    write_picture(meta, long, tmp_path / "long.svg", Wanted())
    assert re.search(r"0 to 7\.50\d* s of 101 s, 151 frames", (tmp_path / "long.svg").read_text(encoding="utf-8"))


# --- the map ----------------------------------------------------------------------------------------------------------


def test_the_map_tells_states_faults_and_frames() -> None:
    said = texts(shown_at(0.25))
    assert {"0.2500 s", "leader · term 2", "leader · term 1", "follower · term 2", "down", "hb t2"} <= set(said)
    assert any(each.endswith(" · 2 under way") for each in said)
    assert "partition: 0 1 | 2 3 4, 0.084 to 0.264 s" in said
    assert "agent 4 is down" in said
    assert "“becomes leader”" in texts(shown_at(0.17))
    assert "partition: 0 1 | 2 3 4, 0.084 to 0.264 s" not in texts(shown_at(0.3))


def test_captions_are_moments_and_what_is_under_way() -> None:
    meta, columns = votes()
    table = film_of(RunHistory(meta, columns))

    def captions(at: float, **more: Any) -> list[str]:
        told = {**meta, "film": table, **more}
        found = Still(told, columns, view="map", theme="light", size=(900, 600), k=1.0, begin=0.0, end=0.36)
        return [each["text"] for each in words(found.at(at)[1]) if each["size"] == pytest.approx(1.35 * 13)]

    noted = [each for each in table["moments"] if each["kind"] == "note"]
    for each in noted:
        assert captions(each["film"])[-1].endswith(each["text"])
    assert captions(noted[-1]["film"] + 4.3) != captions(noted[-1]["film"])
    film, plain = float(Film(table).at(0.02)), {**table, "moments": []}
    assert captions(film, film=plain) == ["1 sends vote? to 0, 2, 3 and 4"]
    assert captions(film, film=plain, medium="shared") == ["1 broadcasts vote?"]


def test_a_frame_without_latency_flies_until_its_round_closes() -> None:
    graph = topology.ring(3)
    traced = Network(graph, round_period=0.1).run({i: Rounder(2) for i in graph}, trace=True)
    from netsim.replay.render import parts

    story = RunHistory(*parts(traced.trace))
    assert (story.columns["end"] == story.columns["start"]).all()
    assert np.allclose(story.until, story.columns["start"] + 0.1)


def test_agents_at_one_place_are_pushed_apart() -> None:
    meta, columns = votes()
    meta["positions"] = [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    names = {each["text"]: (each["x"], each["y"]) for each in words(shown_at(0.0, (meta, columns)))}
    assert np.hypot(*np.subtract(names["0"], names["1"])) > 20


def test_what_lies_below_is_drawn_again_only_if_it_has_changed() -> None:
    meta, columns = votes()
    found = Still(meta, columns, view="map", theme="light", size=(900, 600), k=1.0, begin=0.0, end=0.36)
    at = Film(film_of(RunHistory(meta, columns))).at
    # The partition begins at 84 ms, so the background changes between the second and the third picture.
    belows = [found.at(float(at(time)))[0] for time in (0.02, 0.05, 0.1, 0.12)]
    assert [one is other for one, other in itertools.pairwise(belows)] == [True, False, True]


# --- drawing ----------------------------------------------------------------------------------------------------------

BOX: Call = {"codes": [1, 2, 2, 2, 79], "points": [20, 10, 40, 10, 40, 30, 20, 30, 0, 0], "fill": "#ff0000"}
PLAIN: Call = {"stroke": "", "alpha": 1.0, "width": 1.0, "clip": None}


def test_names_are_no_tags_and_an_image_is_what_was_drawn() -> None:
    word = {"text": "<script>\ud800", "x": 5, "y": 20, "size": 10, "style": 0, "align": "left", "most": 0}
    calls = [{**PLAIN, **BOX}, {**PLAIN, **word, "fill": "#000000"}]
    root = ElementTree.fromstring(svg((60, 40), ("a < b", "\x00"), "#ffffff", calls))
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    image = Painter(60, 40, "#ffffff").paint(calls[:1], [])
    assert image.getpixel((30, 20)) == (255, 0, 0)
    assert image.getpixel((5, 5)) == (255, 255, 255)
    painter, ground = Painter(60, 40, "#ffffff"), list[Call]()
    half = {**PLAIN, **BOX, "alpha": 0.5, "clip": [0, 0, 30, 40]}
    assert painter.paint(ground, calls[1:]).getcolors() != [(2400, (255, 255, 255))]
    # The previous content must be cleared, and clipped parts must not be drawn.
    image = painter.paint(ground, [half])
    assert [image.getpixel(place) for place in ((10, 18), (25, 20), (35, 20))] == [
        (255, 255, 255),
        (255, 127, 127),
        (255, 255, 255),
    ]


@pytest.mark.parametrize("kind", [float, str])
def test_thousands_of_states_within_a_pixel_are_drawn_as_the_last(kind: type) -> None:
    """A lifeline has no gaps, and after a burst of changes it has the colour of the last state."""
    meta, columns = votes()
    burst = np.linspace(0.0, 0.4, 8001).tolist()
    changes = [(time, 0, place % 2) for place, time in enumerate(burst)]
    changes += [(0.5 + 1e-9 * place, 1, place % 2) for place in range(1000)]
    changes.sort()
    times, agents, codes = (list(column) for column in zip(*changes, strict=True))
    values: Any = {"words": ["low", "high"], "codes": codes} if kind is str else [float(each) for each in codes]
    states = {"times": times, "agents": agents, "sent": [0] * len(times), "values": {"x": values}}
    story = {**meta, "states": states, "faults": [], "ended_at": 1.0, "marks": None}
    drawn = diagram(of=(story, {name: each[:0] for name, each in columns.items()}), end=1.0)
    image = np.asarray(Painter(1200, 600, "#ffffff").paint(drawn, []))
    # The axis labels give the positions of times, and the agents' names give the positions of lifelines.
    ticks = {each["text"]: each["x"] for each in words(drawn) if each["text"] in ("0 s", "1 s")}
    lanes = {each["text"]: each["y"] - 0.346 * each["size"] for each in words(drawn) if each["align"] == "right"}

    def pixels(agent: int, begin: float, end: float) -> set[tuple[int, ...]]:
        first, last = (ticks["0 s"] + share * (ticks["1 s"] - ticks["0 s"]) for share in (begin, end))
        row = image[round(lanes[str(agent)]), round(first) + 2 : round(last) - 2]
        return {tuple(int(each) for each in pixel) for pixel in row}

    found = tokens()
    low, high = (
        (each.get("line", each)["light"] for each in found["roles"][:2])
        if kind is str
        else (found["ordinal"][0], found["ordinal"][-1])
    )
    for agent, (begin, end), colour in ((0, (0.45, 0.95), low), (1, (0.55, 0.95), high)):
        expected = tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))
        assert expected in pixels(agent, begin, end)
        assert len(pixels(agent, begin, end)) == 1 or kind is str
    # Agent 2 has no state, so its line is thin and has another colour.
    assert expected not in pixels(2, 0.0, 0.4)


@pytest.mark.parametrize("view", ["map", "spacetime"])
def test_the_work_for_a_name_grows_no_faster_than_the_name(
    view: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most the first thousand letters of a name are used, and only a limited number of them is measured."""
    measured = 0
    getlength = ImageFont.FreeTypeFont.getlength

    def counted(font: Any, text: Any, *args: Any, **how: Any) -> float:
        nonlocal measured
        measured += len(text)
        return getlength(font, text, *args, **how)

    monkeypatch.setattr(ImageFont.FreeTypeFont, "getlength", counted)

    def work(letters: int) -> int:
        nonlocal measured
        names = {i: f"{i}" + "x" * letters for i in range(4)}
        graph = nx.relabel_nodes(topology.path(4), names)
        run = Network(graph, Link(latency=0.03), round_period=0.1).run({name: Rounder(2) for name in graph}, trace=True)
        measured = 0
        run.picture(tmp_path / "long.svg", view=view, title="t" * letters)
        return measured

    few = work(400)
    assert work(1600) < 6 * few
    assert work(100_000) < 40 * few
    assert "x…" in (tmp_path / "long.svg").read_text()


def test_a_text_is_cut_to_its_room_as_if_each_length_were_tried() -> None:
    meta, columns = votes()
    for text in ("a", "Wil" * 90, "iiiiWWWW" * 40, "VAVAVA" * 60):
        found = words(diagram((600, 400), of=({**meta, "title": text}, columns)))[0]
        room, size = 600 - 26, found["size"]
        fits = [text[:length] + "…" for length in range(len(text)) if size * width_of(text[:length] + "…", 1) <= room]
        assert found["text"] == (text if size * width_of(text, 1) <= room else fits[-1])


def test_without_an_engine_one_line_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "quickjs", None)
    with pytest.raises(BadInput, match="pictures: require the package quickjs-ng, which is not installed here"):
        write_picture(*votes(), tmp_path / "votes.png", Wanted())
    assert not list(tmp_path.iterdir())


# The scripts draw on the browser's canvases; each canvas has the size of the picture and is drawn once.
REAL = """(() => {
  const SIZE = [900, 600], made = [], widthOf = () => 0;
  %s
  Surface = class {
    constructor(width, height, left = 0, top = 0) {
      const canvas = Object.assign(document.createElement("canvas"), { width: SIZE[0], height: SIZE[1] });
      const context = canvas.getContext("2d"), put = context.setTransform.bind(context);
      context.setTransform = (a, b, c, d, x, y) => put(a, b, c, d, x + left, y + top);
      context.rect(left, top, width, height);
      context.clip();
      context.setTransform(1, 0, 0, 1, 0, 0);
      made.push(canvas);
      const clear = context.clearRect.bind(context, -SIZE[0], -SIZE[1], 3 * SIZE[0], 3 * SIZE[1]);
      Object.assign(context, { list: [], clearRect: () => clear() });
      Object.assign(this, { width, height, left, top, context });
    }
    getContext() { return this.context; }
    getBoundingClientRect() { return this; }
  };
  begin(%s);
  picture(%s);
  const [frame, words, under, over, cursor, strip] = made, all = document.createElement("canvas");
  Object.assign(all, { width: SIZE[0], height: SIZE[1] });
  const context = all.getContext("2d");
  context.fillStyle = still.look.paper;
  context.fillRect(0, 0, ...SIZE);
  for (const each of [frame, strip, under, over, cursor, words]) if (each) context.drawImage(each, 0, 0);
  return all.toDataURL();
})()"""


@pytest.mark.slow
@pytest.mark.skipif(chromium.program() is None, reason="there is no chromium")
@pytest.mark.parametrize(("view", "theme"), [("map", "light"), ("map", "dark"), ("spacetime", "light")])
def test_a_picture_is_what_a_browser_draws(view: str, theme: str, browser: chromium.Page, tmp_path: Path) -> None:
    meta, columns = votes()
    table = film_of(RunHistory(meta, columns))
    film = float(Film(table).at(0.172)) if view == "map" else None
    found = Still(meta, columns, view=view, theme=theme, size=(900, 600), k=1.0, begin=0.0, end=0.36)
    ours = Painter(900, 600, found.ground).paint(*found.at(film))
    how = {"view": view, "theme": theme, "width": 900, "height": 600, "k": 1.0, "begin": 0.0, "end": 0.36}
    (tmp_path / "empty.html").write_text("<!doctype html>")
    browser.open(tmp_path / "empty.html", ready="true")
    script = REAL % (still.program(), json.dumps(still.told(meta, columns, how)), -1 if film is None else film)
    data = browser.run(script).partition(",")[2]
    theirs = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    ours.save(tmp_path / "ours.png")
    theirs.save(tmp_path / "theirs.png")
    # The browser's font differs from Pillow's, so letters are slightly displaced.
    apart = np.abs(np.asarray(ours, dtype=int) - np.asarray(theirs, dtype=int)).max(axis=2)
    assert (apart > 64).mean() < 0.02
    assert apart.mean() < 4
