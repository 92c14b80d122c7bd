"""Names that other rooms still import from here; delete this module with its last user."""

from lupi._internal.files import explain_os_errors as writing
from lupi.tabular.features import encode_columns as features
from lupi.tabular.text import resolve_folder

__all__ = ["features", "resolved", "writing"]


def resolved(name: str | None) -> str | None:
    """Make the path of a folder absolute."""
    return resolve_folder(name) if name else None
