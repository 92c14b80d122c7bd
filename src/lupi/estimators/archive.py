"""Serialize encoders to bytes that depend only on the encoders, so that a repeated run gives the same files."""

import io
import re
import zipfile
from typing import Any

SCHEMA = "schema.json"
NUMBERS = re.compile(r'(?<=[ {]"__id__": )\d+|(?<=[ {]"file": ")\d+')


def dump_encoders(encoders: dict[str, Any]) -> bytes:
    """Return encoders in the skops format.

    skops names objects by their addresses in memory. Here they are numbered in the order of the schema instead, and
    files have no date.
    """
    import skops.io  # slow to import, and training does not need it

    numbers: dict[str, str] = {}
    archive = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(encoders))) as source, zipfile.ZipFile(archive, "w") as target:
        schema = NUMBERS.sub(lambda id_: numbers.setdefault(id_[0], str(len(numbers))), source.read(SCHEMA).decode())
        members = {re.sub(r"^\d+", lambda id_: numbers[id_[0]], name): name for name in source.namelist()}
        for name in sorted(members):
            target.writestr(zipfile.ZipInfo(name), schema if name == SCHEMA else source.read(members[name]))
    return archive.getvalue()
