"""Every run of the tests is the same run; `pytest --hypothesis-profile=default` looks for new examples."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import settings

from lupi.compare import Comparison
from lupi.compare.statistics import summarize
from lupi.diagnose import Diagnosis
from lupi.diagnose.checks.annotators import describe_annotators, show_confusions
from lupi.diagnose.checks.columns import describe_information
from lupi.diagnose.checks.labels import describe_labels

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # other processes would take seconds to start

if os.name == "nt":  # these fork, send signals or look for programs where POSIX has them
    collect_ignore = [
        "_internal/test_parallel.py",
        "cli/test_cluster.py",
        "estimators/test_facts.py",
        "faults",
        "test_dependencies.py",
    ]

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def cluster():
    """The address of a Dask cluster of two worker processes."""
    pytest.importorskip("distributed")
    root = Path(__file__).parents[1]
    path = os.pathsep.join([str(root / "src"), str(root)])  # workers call functions of tests
    program = subprocess.Popen(
        [sys.executable, root / "tests" / "programs" / "start_cluster.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    yield program.stdout.readline().strip()
    program.communicate()


HOSTILE = [
    "<script>document.title = 'taken'</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></svg><h1>heading",
    "\u202eturned around",
    "שלום עולם",
    "a" * 400,
    "$x^2$ {{ 7 * 7 }} {% raw %}",
    "nul\x00 bell\x07 end",
    "https://example.invalid/x.png",
    "日本語のとても長い名前のアノテーター",
    "",
    "<!-- comment",
    "]]> &amp;",
    "@import url(https://example.invalid/x.css);",
]
"""Names that a table may hold."""


def compared(names, seeds=3, metrics=("nll", "accuracy"), controls=()):
    """A comparison of methods that differ a little, with no-pi among them."""
    rng = np.random.default_rng(0)
    runs = pd.DataFrame(
        [
            {"method": name, "seed": seed, "seconds": 1.5, "control": name in controls}
            | {metric: 0.5 + 0.01 * place + rng.normal(0, 0.005) for metric in metrics}
            for seed in range(seeds)
            for place, name in enumerate(names)
        ]
    )
    return Comparison(runs=runs, summary=summarize(runs, metrics), verdict="It helps.", metrics=tuple(metrics))


def diagnosed(names, labels=50, confusions=None, classes=(), content=None, pictures=None):
    """A diagnosis with a column, an annotator and labels for each name."""
    rng = np.random.default_rng(0)
    n, middle = len(names), rng.uniform(0.3, 0.9, len(names))
    between = {"low": middle - 0.1, "high": middle + 0.05}
    information = pd.DataFrame(
        {"column": names, "estimate": middle, **between, "share": 0.1, "alone": 0.0, "known": 1.0, "leak": middle > 0.8}
    ).assign(how="")
    annotators = pd.DataFrame(
        {
            "annotator": names,
            "labels": np.arange(n) + 1,
            "agreement": middle,
            "confidence": middle**2,
            "support": middle,
        }
        | {"reliability": middle, **between, "flagged": middle < 0.4}
    )
    pick = rng.integers(0, n, (3, labels))
    table = pd.DataFrame(
        {"row": rng.permutation(labels), "example": [names[i] for i in pick[0]], "given": [names[i] for i in pick[1]]}
        | {"likely": [names[i] for i in pick[2]], "wrong": rng.uniform(size=labels)}
    )
    annotators = annotators.sort_values("support", ignore_index=True)
    details = () if confusions is None else show_confusions(annotators, confusions, list(classes))
    table = table.sort_values("wrong", ascending=False, ignore_index=True).assign(**(content or {}))
    findings = {
        "information": describe_information(information, 1.0, None, 2000),
        "annotators": describe_annotators(annotators, details),
        "labels": describe_labels(table, pictures or {}, list(content or {})),
    }
    return Diagnosis(findings=findings)


@pytest.fixture(scope="session")
def make():
    """What makes the data of pages."""
    return SimpleNamespace(hostile=HOSTILE, compared=compared, diagnosed=diagnosed)


@pytest.fixture
def interruptible():
    """Let Ctrl-C interrupt, as in a terminal: a shell that starts tests in the background ignores it."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)
