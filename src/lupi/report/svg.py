"""A matplotlib figure as SVG that is part of a page: the page's colours and fonts, and words for who cannot see it."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

from lupi.report.characters import fit
from lupi.report.style import COLOURS, STYLE

INLINE: Any = {**STYLE, "font.size": 10.5, "legend.fontsize": 9.5, "svg.fonttype": "none"}
"""The style of figures inside a page: narrow, and their text stays text."""
NAMESPACE = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"


def inline_svg(figure: Figure, title: str, description: str, tips: Mapping[str, Sequence[str]] | None = None) -> str:
    """Write a figure as an SVG element.

    Parameters
    ----------
    figure : Figure
        Drawn in `INLINE` with colours out of `COLOURS`.
    title, description : str
        What the figure is, and what it shows, for who cannot see it.
    tips : mapping, optional
        For the gid of a set of points, a text for each point, shown when the mouse is on it.

    Examples
    --------
    >>> with mpl.rc_context(INLINE):
    ...     made = Figure(figsize=(2, 1))
    ...     _ = made.subplots().plot([0, 1], color=COLOURS["pi"])
    >>> text = inline_svg(made, "A line", "It rises.")
    >>> text.startswith("<svg"), "var(--pi, #0f766e)" in text, "It rises.</desc>" in text
    (True, True, True)
    """
    buffer = io.StringIO()
    with mpl.rc_context(INLINE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has more glyphs
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for name, texts in (tips or {}).items():
        points = root.findall(f".//*[@id='{name}']//{{{NAMESPACE}}}use")
        for point, text in zip(points, texts, strict=True):
            ElementTree.SubElement(point, f"{{{NAMESPACE}}}title").text = fit(text)
    salt = hashlib.sha256(f"{title}{buffer.getvalue()}".encode()).hexdigest()[:8]
    _clean(root, salt)
    _name(root, salt, fit(title), fit(description))
    ElementTree.register_namespace("", NAMESPACE)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return ElementTree.tostring(root, encoding="unicode")


def _clean(root: ElementTree.Element, salt: str) -> None:
    """Drop what concerns the whole page, and make ids the figure's own."""
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{{{NAMESPACE}}}metadata", f"{{{NAMESPACE}}}style"):
                parent.remove(child)
    text = ElementTree.tostring(root, encoding="unicode")
    used = set(re.findall(r"url\(#(\w+)\)", text)) | set(re.findall(r'href="#(\w+)"', text))
    for element in root.iter():
        attributes = element.attrib
        if attributes.get("id") in used:
            attributes["id"] = f"f{salt}-{attributes['id']}"
        else:
            attributes.pop("id", None)
        if LINK in attributes:
            attributes["href"] = attributes.pop(LINK).replace("#", f"#f{salt}-")
        if "clip-path" in attributes:
            attributes["clip-path"] = attributes["clip-path"].replace("#", f"#f{salt}-")
        if "d" in attributes:
            attributes["d"] = " ".join(attributes["d"].split())
        if "style" in attributes:
            attributes["style"] = _themed(attributes["style"])
        if attributes.get("transform", "").startswith("rotate(-0 "):
            del attributes["transform"]


def _themed(style: str) -> str:
    """Name colours by their role, and leave the font to the page."""
    style = re.sub(r"font-family: [^;]*;? ?", "", style)
    for role, colour in COLOURS.items():
        style = style.replace(colour, "currentColor" if role == "truth" else f"var(--{role}, {colour})")
    return style


def _name(root: ElementTree.Element, salt: str, title: str, description: str) -> None:
    """Give the figure a title and a description, and let the page choose its size."""
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"f{salt}-title f{salt}-desc"}
    for place, (name, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(f"{{{NAMESPACE}}}{name}", {"id": f"f{salt}-{name}"})
        element.text = text
        root.insert(place, element)
