"""Settings of the documentation: `make docs` builds it, and `make gallery` also runs the examples."""

import os
from importlib import metadata
from pathlib import Path

REPOSITORY = "https://github.com/lupi-learn/lupi"

project = "lupi"
author = "the lupi developers"
copyright = author
version = release = metadata.version("lupi")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/*.py", "auto_examples/*.ipynb", "auto_examples/*.json"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
default_role = "code"  # docstrings and gallery texts write names between single backticks

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autosummary_generate = True
FOREIGN = (
    "Module,Sequential,BaseEstimator,ClassifierMixin,RegressorMixin,TransformerMixin,_MetadataRequester,"
    "_SetOutputMixin,tuple,object"
)
"""Base classes of other libraries, whose members our pages leave out."""
REQUESTS = ", ".join(f"set_{method}_request" for method in ("fit", "predict", "score", "transform"))
"""What scikit-learn adds to estimators."""
autodoc_default_options = {
    "members": True,
    "inherited-members": FOREIGN,
    "exclude-members": REQUESTS,
    "member-order": "bysource",
}
autodoc_typehints = "none"  # numpydoc sections give types in words
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
copybutton_exclude = ".linenos, .gp, .go"

EXECUTE = bool(os.environ.get("LUPI_GALLERY"))
"""Whether the build runs the gallery, which takes minutes."""
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "plot_gallery": EXECUTE,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "default_thumb_file": str(Path(__file__).parent / "two-heads.svg"),  # for scripts that draw nothing
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
toc_object_entries_show_parents = "hide"
html_title = "lupi"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "icon_links": [{"name": "GitHub", "url": REPOSITORY, "icon": "fa-brands fa-github"}],
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": [], "auto_examples/**": []}
