import numpy as np
import pandas as pd
import pytest

from lupi_paper.experiments.linear_risk import Settings, count_checks, make_counterexample, make_models, run
from lupi_paper.settings import change_settings
from lupi_paper.theory.risk import ESTIMATORS, PROPOSITIONS, conditions

TINY = Settings(n=12, d=2, pi_variance=(0.1, 1.0), overlap=(0.0, 1.0), draws=20, repeats=2, expectation_draws=100)
SMALL = Settings(
    n=30, d=3, pi_variance=(0.01, 1.0), overlap=(0.0, 0.97, 1.0), draws=2000, repeats=5, expectation_draws=4000
)


@pytest.fixture(scope="module")
def tiny():
    return run(TINY, progress=False)


def test_table_is_tidy(tiny):
    table = tiny.table
    assert len(table) == (4 + 1) * (len(ESTIMATORS) + 3 * len(PROPOSITIONS) + 1)
    assert not table.duplicated(["model", "overlap", "pi_variance", "kind", "name"]).any()
    assert table["apart"].notna().equals(table["kind"].isin(["risk", "exact"]))
    assert table.drop(columns="apart").notna().all(axis=None)


def test_it_repeats_exactly(tiny):
    again = run(TINY, progress=False)
    pd.testing.assert_frame_equal(tiny.table, again.table, check_exact=True)
    assert tiny.text == again.text
    other = run(change_settings(TINY, ["seed=1"]), progress=False)
    assert not tiny.table["measured"].equals(other.table["measured"])


def test_every_figure_is_in_the_report(tiny):
    assert set(tiny.figures) == {"saved-risk", "agreement"}
    for name in tiny.figures:
        assert f"]({name}.svg)" in tiny.text


def test_progress(capsys):
    run(TINY, progress=True)
    assert "100%" in capsys.readouterr().err


@pytest.mark.parametrize("m", [1, 2])
def test_closed_forms_and_conditions_agree_with_simulations(m):
    findings = run(change_settings(SMALL, [f"m={m}"]), progress=False)
    counts = count_checks(findings.table[findings.table["model"] == "grid"])
    assert counts["risks agree"] == counts["risks"] == 6 * 4
    assert counts["differences agree"] == counts["differences"] == 6 * 2
    assert counts["signs agree"] == counts["signs"] == counts["helps"] + counts["hurts"]
    assert counts["helps"] >= 5
    assert counts["hurts"] >= 2
    assert counts["sufficient holds"] >= 4
    assert counts["sufficient refuted"] == counts["sharper refuted"] == 0
    assert "24 of 24 simulated risks" in findings.text
    wrong = findings.table[findings.table["model"] == "counterexample"].set_index(["kind", "name"])
    assert wrong.loc[("printed", "imputed"), "value"] > 0
    assert wrong.loc[("exact", "imputed"), "measured"] < 0


def test_grid_has_the_overlap_and_the_variance_it_says():
    for overlap, variance, model in make_models(change_settings(SMALL, ["m=2"]), np.random.SeedSequence(0)):
        within = model.project(model.mu)
        assert np.isclose((within**2).sum() / (model.mu**2).sum(), overlap)
        assert np.isclose(((model.mu @ model.v) ** 2).mean(), 1)
        assert np.isclose(model.outside, 1 - overlap)
        assert np.isclose(model.pi_variance.mean(), variance)


def test_counterexample():
    condition = conditions(make_counterexample(), draws=20_000)["imputed"]
    assert abs(condition.exact.value + 28) < 3 * condition.exact.error
    assert condition.printed.value > 0 > condition.sufficient.value


def rows(*values):
    columns = ["kind", "value", "measured", "measured_error", "apart"]
    return pd.DataFrame(values, columns=columns)


def test_what_is_counted():
    counts = count_checks(
        rows(
            ("risk", 1.0, 1.1, 0.05, 2.0),
            ("risk", 1.0, 1.2, 0.05, 4.0),
            ("exact", 1.0, 1.1, 0.1, 1.0),  # helps
            ("exact", 1.0, -1.0, 0.1, -20.0),  # hurts, and the condition says otherwise
            ("exact", -1.0, 0.2, 0.1, 12.0),  # too small to have a sign
            ("sufficient", 1.0, 1.1, 0.1, np.nan),
            ("sufficient", 1.0, -1.0, 0.1, np.nan),  # refuted
            ("sufficient", -1.0, 1.0, 0.1, np.nan),  # silent
            ("printed", 1.0, -0.2, 0.1, np.nan),  # too small to refute
            ("sharper", -1.0, -1.0, 0.1, np.nan),
        )
    )
    assert counts == {
        "risks": 2,
        "risks agree": 1,
        "differences": 3,
        "differences agree": 1,
        "signs": 2,
        "signs agree": 1,
        "helps": 1,
        "hurts": 1,
        "sufficient holds": 2,
        "sufficient refuted": 1,
        "printed holds": 1,
        "printed refuted": 0,
        "sharper holds": 0,
        "sharper refuted": 0,
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("m=5", "Expected `m` to be at most d = 4, but got 5."),
        ("n=8", "Expected `n` to be an integer of at least 9, but got 8."),
        ("overlap=1.5,", "Expected `overlap` to be a number from 0 to 1, but got 1.5."),
        ("overlap=()", "Expected `overlap` to be one number or more, but got none."),
        ("pi_variance=0.0,", "Expected `pi_variance` to be a number greater than 0, but got 0.0."),
        ("sigma=0", "Expected `sigma` to be a number greater than 0, but got 0.0."),
        ("expectation_draws=10", "Expected `expectation_draws` to be an integer of at least 100, but got 10."),
    ],
)
def test_wrong_settings(setting, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        change_settings(Settings(), [setting])
