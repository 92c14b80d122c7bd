"""Run commands of lupi in one process: a JSON list of lists of arguments, from standard input."""

import json
import sys

from lupi.cli import app

if __name__ == "__main__":
    for arguments in json.load(sys.stdin):
        try:
            app(arguments)
        except SystemExit as done:
            if done.code:
                raise
