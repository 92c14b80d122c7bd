"""What methods do in training, written down."""

import inspect
from contextlib import contextmanager

import pytest


@contextmanager
def recorded(kind, name):
    """Record the calls of a method of `LabelPosterior`: its arguments but data, then the memory, then the result."""
    calls, original = [], getattr(kind, name)
    kept = [
        argument for argument in inspect.signature(original).parameters if argument in ("name", "names", "networks")
    ]

    def call(self, *arguments, **options):
        result = original(self, *arguments, **options)
        bound = inspect.signature(original).bind(self, *arguments, **options).arguments
        memory = {kind: {key: value.clone() for key, value in kept.items()} for kind, kept in self.memory.items()}
        calls.append([*(bound[argument] for argument in kept), memory, *([] if result is None else [result])])
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, name, call)
        yield calls
