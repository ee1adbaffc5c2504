"""Figures of the benchmark, as files and inside a page."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes
from PIL import Image

from appl.benchmark.compare import Comparison, Pairs
from appl.benchmark.curves import Curve, Point
from appl.benchmark.sensitivity import KNOBS
from appl.benchmark.statistics import Estimate
from appl.errors import SettingsError
from appl.report.benchmark_figures import curve_panels, scatter_panel
from appl.report.drawing import Margins, save_figure
from appl.report.embedding import hover, inline_svg
from appl.report.palette import LIGHT

HOSTILE = "<b>$x_1^2$ & _"
COMPARISON = Comparison(
    HOSTILE,
    "TIM",
    (
        Pairs("CUB", (0, 1), (50.0, 61.0), (48.0, 63.0)),
        Pairs(HOSTILE, (0, 1), (30.0, 31.0), (29.0, 33.0)),
    ),
)
CURVE = Curve(
    KNOBS[0],
    0.5,
    (
        Point(0.1, Estimate(80, 3, 12), Estimate(-5, 4, 12)),
        Point(0.5, Estimate(85, 3, 12), Estimate(0, 0, 12)),
    ),
)


def words(path: Path) -> list[str]:
    tree = ElementTree.parse(path)
    return [node.text or "" for node in tree.iter() if node.tag.endswith("}text")]


def test_names_stay_as_they_are_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "scatter.svg"
    save_figure([scatter_panel(COMPARISON)], path)
    found = words(path)
    assert f"{HOSTILE}, %" in found and "TIM, %" in found
    assert HOSTILE in found and "CUB" in found  # the legend


def test_a_drawing_can_be_limited_to_the_first_points(tmp_path: Path) -> None:
    counts = []
    for name, n_drawn in (("all.svg", None), ("first.svg", 1)):
        save_figure([scatter_panel(COMPARISON, legend=False, n_drawn=n_drawn)], tmp_path / name)
        uses = re.findall(r"<use [^>]*fill: #(?:5955ff|a44d0f)", (tmp_path / name).read_text())
        counts.append(len(uses))
    assert counts == [4, 2]


def test_the_same_results_give_the_same_file(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        save_figure(curve_panels([CURVE]), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    save_figure(curve_panels([CURVE, CURVE, CURVE]), tmp_path / "c.png")
    with Image.open(tmp_path / "c.png") as image:
        assert image.format == "PNG" and image.width > image.height


def test_the_band_and_the_bars_are_in_the_picture(tmp_path: Path) -> None:
    save_figure(curve_panels([CURVE]), tmp_path / "curve.svg")
    ticks = [float(text) for text in words(tmp_path / "curve.svg") if re.fullmatch(r"\d\d", text)]
    # From 80 − 4, the wider of band and bar, to 85 + 3, and a point beyond.
    assert min(ticks) < 80 and max(ticks) > 85
    assert {"0.1", "0.5"} <= set(words(tmp_path / "curve.svg"))


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no figure is drawn as '\.gif'; end it in \.svg"):
        save_figure(curve_panels([CURVE]), tmp_path / "x.gif")
    assert list(tmp_path.iterdir()) == []


def test_inside_a_page_it_has_the_colours_of_the_page() -> None:
    drawing = inline_svg(scatter_panel(COMPARISON), HOSTILE)
    assert drawing.startswith('<svg class="plot drawn" viewBox="0 0 ')
    assert "&lt;b&gt;$x_1^2$ &amp; _" in drawing and "<b>" not in drawing
    assert "var(--k0)" in drawing and "var(--k1)" in drawing
    assert not any(value in drawing for value in LIGHT.values())
    assert not re.search(r"https?:|<metadata", drawing)
    assert not re.search(r'<g id="', drawing)
    assert not re.search(r"#[0-9a-f]{6}", drawing)  # not any other colour, either


@pytest.mark.filterwarnings("ignore:Glyph")
def test_inside_a_page_elements_escape_what_they_hold() -> None:
    name = '</svg><b a="x">\x00'

    def draw(axes: Axes) -> None:
        axes.set_title(name)
        (line,) = axes.plot((0, 1), (0, 1))
        hover(line, name)
        axes.text(0, 0, LIGHT["k0"])

    drawing = inline_svg(draw, name)
    assert drawing.count("</svg>") == 1 and drawing.endswith("</svg>")
    assert "<b" not in drawing
    assert '<title>&lt;/svg&gt;&lt;b a="x"&gt;</title>' in drawing
    assert f">{LIGHT['k0']}</text>" in drawing  # a name that reads like a colour


@pytest.mark.parametrize(
    "title", ["", "a title that is longer than the axis that it stands beside"]
)
def test_margins_keep_the_size(title: str) -> None:
    drawing = inline_svg(lambda axes: axes.set_ylabel(title), "", (5, 3), Margins(9, 9, 9, 9))
    assert 'viewBox="0 0 360 216"' in drawing
