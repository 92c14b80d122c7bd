"""Write outputs safely: atomically, by one process at a time, and without replacing anything else.

The writer of an output holds its lock, ``.NAME.lupi-lock`` beside it, so the other hidden names can be fixed:
``.NAME.lupi-partial`` is the output being written, and ``.NAME.lupi-old`` is the old folder where folders cannot be
exchanged atomically. A process that acquires the lock of a dead process cleans up after it.
"""

from lupi._internal.files.folders import current_folder, is_blank, replace_folder
from lupi._internal.files.locks import lock_output
from lupi._internal.files.outputs import check_output, claim_output, explain_os_errors
from lupi._internal.files.records import read_results, to_csv, to_records
from lupi._internal.files.writing import replace_file, write_atomic, write_text

__all__ = [
    "check_output",
    "claim_output",
    "current_folder",
    "explain_os_errors",
    "is_blank",
    "lock_output",
    "read_results",
    "replace_file",
    "replace_folder",
    "to_csv",
    "to_records",
    "write_atomic",
    "write_text",
]
