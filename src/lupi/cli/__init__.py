"""The command line: parses, calls, prints. Heavy imports wait until a command needs them."""

from lupi.cli.app import app

__all__ = ["app"]
