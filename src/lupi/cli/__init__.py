"""The command line: parses, calls, prints."""

from lupi.cli.main import app

__all__ = ["app"]
