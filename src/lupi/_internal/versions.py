"""Record the software that results depend on."""

import sys
from importlib.metadata import version


def library_versions() -> dict[str, str]:
    """Return the versions of lupi, Python and the libraries that results depend on."""
    from lupi import __version__

    own = {"lupi": __version__, "python": sys.version.split()[0]}
    return own | {name: version(name) for name in ("torch", "scikit-learn", "numpy")}
