"""Run a script with the packages of a folder only: `python -I -S run_alone.py FOLDER SCRIPT ARGUMENTS`."""

import runpy
import sys

folder, sys.argv = sys.argv[1], sys.argv[2:]
sys.path.append(folder)
runpy.run_path(sys.argv[0], run_name="__main__")
