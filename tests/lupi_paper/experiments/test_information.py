import math

import pytest

from lupi_paper.experiments.information import FEWER, PAPER, Settings, run
from lupi_paper.findings import make_files
from lupi_paper.theory.information import exact_information

SMALL = Settings(noise=(0.5, 1.0), seeds=2, sample=20_000, bins=20, annotations=100, folds=2)


@pytest.fixture(scope="module")
def findings():
    return run(SMALL, progress=False)


def test_every_estimate_is_in_the_table(findings):
    counts = findings.table.groupby(["noise", "estimator"]).size()
    for noise in SMALL.noise:
        assert counts[noise].to_dict() == {
            "exact": 1,
            "paper": 1,
            "bins": 2 * len(FEWER),
            "bins, a shuffled": 2,
            "two models": 1,
        }
    exact = findings.table[findings.table["estimator"] == "exact"].set_index("noise")["information"]
    assert exact.to_dict() == {noise: exact_information(noise) for noise in SMALL.noise}


def test_bins_are_biased_and_more_so_in_a_small_sample(findings):
    bins = findings.table[(findings.table["estimator"] == "bins") & (findings.table["noise"] == 1.0)]
    mean = bins.groupby("sample")["information"].mean()
    assert mean.is_monotonic_decreasing  # with the size of the sample
    assert mean[20_000] > exact_information(1.0)
    shuffled = findings.table[findings.table["estimator"] == "bins, a shuffled"]["information"]
    assert shuffled.between(0.001, 0.02).all()


def test_report_has_the_published_numbers_and_the_figure(findings):
    for noise in SMALL.noise:
        assert f"| {PAPER[noise]:.3f} |" in findings.text
        assert f"| {exact_information(noise):.4f} |" in findings.text
    assert "(information.svg)" in findings.text
    assert len(findings.figures["information"].axes) == 2


def test_a_run_repeats_exactly(findings):
    facts = {"command": "lupi", "versions": {"lupi": "0"}}
    files = make_files(findings, SMALL, facts)
    assert set(files) == {"information.svg", "report.md", "results.csv", "results.json"}
    assert make_files(run(SMALL, progress=False), SMALL, facts) == files


def test_noise_that_the_paper_has_not():
    small = Settings(noise=(0.7,), seeds=2, sample=1000, bins=5, annotations=40, folds=2)
    findings = run(small, progress=False)
    assert "| 0.7 | – |" in findings.text
    assert "paper" not in set(findings.table["estimator"])


@pytest.mark.parametrize(
    ("name", "value"),
    [("noise", ()), ("noise", (0.0,)), ("noise", (math.inf,)), ("seeds", 1), ("bins", 1), ("folds", 1), ("sample", 9)],
)
def test_settings_refuse(name, value):
    with pytest.raises(ValueError, match=f"Expected `{name}` to be"):
        Settings(**{name: value})
