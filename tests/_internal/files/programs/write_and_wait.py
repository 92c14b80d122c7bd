"""Begin to write an output, say so, and wait: for an end of the input, or to be killed."""

import sys
from pathlib import Path

from lupi._internal.files import claim_output, replace_folder

if __name__ == "__main__":
    path = Path(sys.argv[1])
    with claim_output(path, folder=True, overwrite=True), replace_folder(path) as partial:
        (partial / "half").write_text("half")
        print("writing", flush=True)
        sys.stdin.read()
