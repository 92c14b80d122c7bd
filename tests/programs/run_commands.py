"""Run commands of lupi in one process. Each line of standard input is a JSON pair: a folder and lists of arguments.

A line of JSON with the output of the commands, or of the one that failed, and its exit code, follows for each.
"""

import contextlib
import io
import json
import os
import sys

from lupi.cli import app


def run(arguments):
    """Run a command, and return its exit code."""
    try:
        app(arguments)
    except SystemExit as done:
        return done.code or 0
    return 0


if __name__ == "__main__":
    for line in sys.stdin:
        folder, commands = json.loads(line)
        os.chdir(folder)
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            code = next(filter(None, map(run, commands)), 0)
        print(json.dumps({"code": code, "output": shown.getvalue()}), flush=True)
