"""Drawings inside a page: they scale with it, have its colours and its font, and names stay names.

The light colours of the palette become the page's custom properties, so that a drawing follows
the theme.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markupsafe import Markup

from appl.report.drawing import PANEL, Margins, Panel, draw
from appl.report.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.artist import Artist

_HOVER = "hover: "
_DROPPED = ("metadata", "style", "clipPath")  # `style` would count for the whole page
_NO_XML = dict.fromkeys([*(set(range(32)) - {9, 10, 13}), 0xFFFE, 0xFFFF])


@dataclass(frozen=True)
class Chart:
    """A picture, how to read it, and what its colours mean."""

    title: str
    how: str
    svg: Markup
    legend: tuple[tuple[str, str], ...] = ()  # (class in the style sheet, words)


def hover(artist: "Artist", words: str) -> None:
    """Let a page say words where the pointer rests on a part of a drawing."""
    artist.set_gid(f"{_HOVER}{words}")


def inline_svg(
    panel: Panel, label: str, size: tuple[float, float] = PANEL, margins: Margins | None = None
) -> Markup:
    """Return a drawing to stand in a page; `label` is what a screen reader says of it."""
    text = draw([panel], "svg", size, margins).decode()
    root = ElementTree.fromstring(text.translate(_NO_XML))
    _clean(root)
    head = Markup('<svg class="plot drawn" viewBox="{}" role="img" aria-label="{}">')
    inner = "".join(ElementTree.tostring(child, encoding="unicode") for child in root)
    return head.format(root.attrib["viewBox"], label) + Markup(inner) + Markup("</svg>")


def _clean(element: ElementTree.Element) -> None:
    """Leave what a page needs: no name spaces, no numbered ids, colours as custom properties.

    Nothing is clipped: no panel draws beyond its axes but dots and lines on their very edge, which
    are to be whole.
    """
    element.tag = _local(element.tag)
    attributes = {_local(name): value for name, value in element.attrib.items()}
    attributes.pop("clip-path", None)
    # Groups are numbered from one in every drawing; what is used by its id is no group.
    group = attributes.pop("id", "") if element.tag == "g" else ""
    if "style" in attributes:
        attributes["style"] = _with_properties(attributes["style"])
    element.attrib.clear()
    element.attrib.update(attributes)
    for child in list(element):
        _clean(child)
        if child.tag in _DROPPED or (child.tag == "defs" and not len(child)):
            element.remove(child)
    if group.startswith(_HOVER):
        title = ElementTree.Element("title")
        title.text = group.removeprefix(_HOVER)
        element.insert(0, title)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _with_properties(style: str) -> str:
    for name, value in LIGHT.items():
        style = style.replace(value, f"var(--{name})")
    return style
