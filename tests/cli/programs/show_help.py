"""Show the help of commands, and print the heavy packages that this imported."""

import sys

from typer.testing import CliRunner

from lupi.cli import app

if __name__ == "__main__":
    for command in sys.argv[1:]:
        result = CliRunner().invoke(app, [*command.split(), "--help"])
        assert result.exit_code == 0, result.output
    print([name for name in ("torch", "sklearn", "pandas", "numpy", "pyarrow") if name in sys.modules])
