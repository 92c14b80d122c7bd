"""Convert a matplotlib figure to inline SVG, with the colours and fonts of the page and a text alternative."""

import hashlib
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

from lupi._internal.sanitizing import sanitize

COLOURS = {
    "no-pi": "#6b7280",
    "pi": "#0f766e",
    "truth": "#111827",
    "control": "#d97706",
    "other": "#7c3aed",
    "paper": "#ffffff",
}
"""Colours by role. A report replaces each with the CSS variable of that name, which has another value in dark mode."""
STYLE: Any = {
    "figure.figsize": (6.4, 4.0),
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": COLOURS["no-pi"],
    "axes.labelcolor": COLOURS["truth"],
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": COLOURS["no-pi"],
    "grid.alpha": 0.25,
    "grid.linewidth": 0.7,
    "text.color": COLOURS["truth"],
    "xtick.color": COLOURS["no-pi"],
    "ytick.color": COLOURS["no-pi"],
    "xtick.labelcolor": COLOURS["truth"],
    "ytick.labelcolor": COLOURS["truth"],
    "legend.frameon": False,
    "svg.hashsalt": "lupi",  # makes the SVG reproducible
}
"""Matplotlib's settings."""
INLINE: Any = {
    **STYLE,
    "font.size": 10.5,
    "legend.fontsize": 9.5,
    "legend.borderaxespad": 0.2,
    "legend.handletextpad": 0.2,
    "legend.columnspacing": 1.2,
    "legend.borderpad": 0.2,
    "svg.fonttype": "none",  # keep text as text
    "text.parse_math": False,  # a $ in a name is not mathematics
}
"""The style of figures inside a page."""
NAMESPACE = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"


def inline_svg(figure: Figure, title: str, description: str, tips: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return a figure as an SVG element."""
    buffer = io.StringIO()
    with mpl.rc_context(INLINE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # browsers have more fonts
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for name, texts in (tips or {}).items():
        points = root.findall(f".//*[@id='{name}']//{{{NAMESPACE}}}use")
        for point, text in zip(points, texts, strict=True):
            ElementTree.SubElement(point, f"{{{NAMESPACE}}}title").text = sanitize(text)
    salt = hashlib.sha256(f"{title}{buffer.getvalue()}".encode()).hexdigest()[:8]
    _clean(root, salt)
    _describe(root, salt, sanitize(title), sanitize(description))
    ElementTree.register_namespace("", NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(root: ElementTree.Element, salt: str) -> None:
    """Remove elements that would affect the whole page, and make the ids unique to the figure."""
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{{{NAMESPACE}}}metadata", f"{{{NAMESPACE}}}style"):
                parent.remove(child)
    for element in root.iter():
        attributes = element.attrib
        if "id" in attributes:
            attributes["id"] = f"f{salt}-{attributes['id']}"
        if LINK in attributes:
            attributes["href"] = attributes.pop(LINK).replace("#", f"#f{salt}-")
        if "clip-path" in attributes:
            attributes["clip-path"] = attributes["clip-path"].replace("#", f"#f{salt}-")
        if "style" in attributes:
            attributes["style"] = _use_page_theme(attributes["style"])


def _use_page_theme(style: str) -> str:
    """Replace colours with CSS variables of the page, and remove the font."""
    style = re.sub(r"font-family: [^;]*;? ?", "", style)
    for role, colour in COLOURS.items():
        style = style.replace(colour, "currentColor" if role == "truth" else f"var(--{role}, {colour})")
    return style


def _describe(root: ElementTree.Element, salt: str, title: str, description: str) -> None:
    """Add a title and a description, and remove the fixed size."""
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"f{salt}-title f{salt}-desc"}
    for place, (name, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(f"{{{NAMESPACE}}}{name}", {"id": f"f{salt}-{name}"})
        element.text = text
        root.insert(place, element)
