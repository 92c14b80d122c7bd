"""Search a folder for names and numbers: every byte of every file, decompressed."""

import io
import zipfile
from pathlib import Path

import numpy as np


def find_traces(folder, names=(), numbers=()):
    """Return which names and numbers a folder holds, in any encoding that its files may use."""
    found = set()
    for content in unpack(folder):
        found |= {name for name in names if any(name.encode(code) in content for code in ENCODINGS)}
        found |= {number for number in numbers if any(form in content for form in forms(number))}
    return found


ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
"""numpy stores strings as UTF-32."""


def forms(number):
    """The bytes of a number: as text, and as binary numbers."""
    yield repr(float(number)).encode()
    for kind in ("<f4", ">f4", "<f8", ">f8"):
        yield np.array(number, dtype=kind).tobytes()


def unpack(folder):
    """Yield the content of every file, and of every file in an archive."""
    for path in Path(folder).rglob("*"):
        if path.is_file():
            yield str(path.relative_to(folder)).encode()
            yield from unpack_content(path.read_bytes())


def unpack_content(content):
    """Yield a content and, if it is an archive, those of its members."""
    yield content
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                yield name.encode()
                yield from unpack_content(archive.read(name))
