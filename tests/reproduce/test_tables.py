from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss
from torch import nn

from lupi.compare.cache import kept, open_folder
from lupi.compare.statistics import Difference
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical
from lupi.methods import NoPI
from lupi.nn import MLP, Parts
from lupi.reproduce import tables
from lupi.reproduce.tables import Case, Claim, Published, claims_table, judged, results_table, train_cases
from lupi.training import Settings

CPU = torch.device("cpu")


def make_case(name="no-pi", likelihood=Categorical(), outputs=3, method=None, **options):
    generator = torch.Generator().manual_seed(0)
    x, a = torch.randn(60, 4, generator=generator), torch.randn(60, 2, generator=generator)
    if isinstance(likelihood, Categorical):
        y = torch.randint(outputs, (60,), generator=generator)
    else:
        y = torch.randint(2, (60, outputs), generator=generator).float()
    parts = Parts(lambda: MLP(4, (8,)), features=8, privileged=2, outputs=outputs, likelihood=likelihood)
    data = Annotations(x, torch.arange(60), a, y)
    return Case(name, name.upper(), method or name, parts, data, Settings(epochs=1), options)


# -------------------------------------------------------------------------------- scores


def test_scores_of_classes_are_scikit_learns():
    case = make_case()
    method, x = NoPI(nn.Linear(4, 5), nn.Linear(5, 3)), torch.randn(2000, 4)
    y = torch.randint(3, (2000,))
    found = tables.score_on(x, y)(case, method)
    p = torch.softmax(method.predictor()(x).double(), -1).detach().numpy()
    assert found["nll"] == pytest.approx(log_loss(y, p / p.sum(1, keepdims=True)), abs=1e-5)
    assert found["accuracy"] == pytest.approx(accuracy_score(y, p.argmax(1)))


def test_scores_of_labels_are_the_mean_of_scikit_learns_over_labels():
    case = make_case(likelihood=Bernoulli())
    method, x = NoPI(nn.Linear(4, 5), nn.Linear(5, 3), likelihood=Bernoulli()), torch.randn(2000, 4)
    y = (torch.rand(2000, 3) < torch.tensor([0.1, 0.5, 0.7])).float()
    found = tables.score_on(x, y)(case, method)
    p = torch.sigmoid(method.predictor()(x).double()).detach().numpy()
    labels = range(3)
    assert found["nll"] == pytest.approx(np.mean([log_loss(y[:, k], p[:, k]) for k in labels]), abs=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean([accuracy_score(y[:, k], p[:, k] > 0.5) for k in labels]))


# -------------------------------------------------------------------------------- training


def score(_, method):
    """Two numbers that depend on the trained weights, one more, and an array."""
    weight = method.predictor()(torch.ones(1, 4)).detach()
    return {"nll": float(weight.mean()), "accuracy": float(weight.std()), "more": 7.0, "kept": weight.numpy()}


def test_pairs_are_trained_and_kept(tmp_path):
    open_folder(tmp_path, {})
    cases = [make_case(), make_case("tram"), make_case("slow-tram", method="tram", beta=0.1)]
    runs = train_cases(cases, [3, 4], tmp_path, score, device=CPU)
    assert list(runs) == ["method", "seed", "nll", "accuracy", "more", "seconds"]
    assert list(zip(runs["method"], runs["seed"], strict=True)) == [
        *(("no-pi", 3), ("no-pi", 4), ("tram", 3), ("tram", 4), ("slow-tram", 3), ("slow-tram", 4))
    ]
    assert runs["nll"].nunique() == 6
    assert (runs["seconds"] > 0).all()
    files = sorted((tmp_path / "runs").iterdir())
    assert [path.name for path in files] == sorted(f"{case.name}-{seed}.npz" for case in cases for seed in (3, 4))
    assert kept(tables.file_of(tmp_path, "tram", 4))["kept"].shape == (1, 3)


def test_kept_pairs_are_not_trained_again(tmp_path, monkeypatch):
    """Also not where other seeds or cases are asked for, and a file that is broken counts as none."""
    open_folder(tmp_path, {})
    first = train_cases([make_case()], [0, 1], tmp_path, score, device=CPU)
    trained, train_case = [], tables.train_case

    def recorded(case, seeds, *rest):
        trained.append((case.name, list(seeds)))
        train_case(case, seeds, *rest)

    monkeypatch.setattr(tables, "train_case", recorded)
    again = train_cases([make_case()], [0, 1], tmp_path, score, device=CPU)
    pd.testing.assert_frame_equal(again, first, check_exact=True)
    assert trained == []
    tables.file_of(tmp_path, "no-pi", 1).write_bytes(b"half a fi")
    more = train_cases([make_case(), make_case("tram")], [0, 1, 2], tmp_path, score, device=CPU)
    assert trained == [("no-pi", [1, 2]), ("tram", [0, 1, 2])]
    columns = ["method", "seed", "nll", "accuracy"]
    pd.testing.assert_frame_equal(more[columns].iloc[:2], first[columns], check_exact=True)


def test_seeds_train_in_groups_and_repeat(tmp_path, monkeypatch):
    """Weights of a seed are its own, whatever group it trains in."""
    runs = []
    for at_once in (20, 2):
        monkeypatch.setattr(tables, "SEEDS_AT_ONCE", at_once)
        open_folder(tmp_path / str(at_once), {})
        runs.append(train_cases([make_case()], range(5), tmp_path / str(at_once), score, device=CPU))
    assert runs[0]["nll"].to_numpy() == pytest.approx(runs[1]["nll"].to_numpy(), abs=1e-4)


@pytest.mark.parametrize("seeds", [[0, 1], range(4)])
def test_one_network_is_trained_once_and_predicts_as_if_alone(tmp_path, monkeypatch, seeds):
    first = make_case("zero-imputation")
    between = replace(make_case("heteroscedastic-dropout"), parts=first.parts, data=first.data)
    others = [replace(first, name=name, method=name) for name in tables.ONE_NETWORK[1:]]
    others.append(replace(others[0], name="longer", how=Settings(epochs=2)))
    sampled = replace(others[1], name="sampled", options={"samples": 7})
    alone = []
    for case in (first, between, *others, sampled):
        open_folder(tmp_path / case.name, {})
        alone.append(train_cases([case], seeds, tmp_path / case.name, score, device=CPU))
    trained, usual = [], tables.fit_seeds

    def counted(methods, *rest, **options):
        trained.append(type(methods[0]).__name__)
        return usual(methods, *rest, **options)

    monkeypatch.setattr(tables, "fit_seeds", counted)
    open_folder(tmp_path / "together", {})
    together = train_cases([first, between, *others, sampled], seeds, tmp_path / "together", score, device=CPU)
    assert trained == ["ZeroImputation", "HeteroscedasticDropout", "MeanImputation", "FullMarginalization"]
    columns = ["method", "seed", "nll", "accuracy"]
    expected = pd.concat(alone, ignore_index=True)
    pd.testing.assert_frame_equal(together[columns], expected[columns], check_exact=True)


def test_progress_counts_pairs(tmp_path, capsys):
    open_folder(tmp_path, {})
    train_cases([make_case()], [0, 1], tmp_path, score, device=CPU, progress=True)
    assert "methods and seeds NO-PI (2/2)" in capsys.readouterr().err


# -------------------------------------------------------------------------------- tables


RUNS = pd.DataFrame(
    {
        "method": ["no-pi"] * 3 + ["tram"] * 3,
        "seed": [0, 1, 2] * 2,
        "nll": [1.0, 1.1, 1.2, 0.8, 0.91, 0.99],
        "accuracy": [0.6, 0.6, 0.6, 0.7, 0.6, 0.65],
    }
)
PAPER = {"no-pi": Published(1.058, 0.05, 67.0, 1.7), "tram": Published(0.98, 0.037, 70.1, 1.4)}


def test_results_stand_beside_the_papers():
    cases = [make_case(), make_case("tram")]
    assert results_table(RUNS, cases).splitlines()[2:] == [
        "| NO-PI | 1.100 ± 0.100 | 60.0 ± 0.0 |",
        "| TRAM | 0.900 ± 0.095 | 65.0 ± 5.0 |",
    ]
    header, _, *lines = results_table(RUNS, cases, {"tram": PAPER["tram"]}, digits=2, points=2).splitlines()
    assert header == "| method | NLL | accuracy, % | NLL in the paper | accuracy in the paper, % |"
    assert lines == [
        "| NO-PI | 1.10 ± 0.10 | 60.00 ± 0.00 |  |  |",
        "| TRAM | 0.90 ± 0.10 | 65.00 ± 5.00 | 0.98 ± 0.04 | 70.10 ± 1.40 |",
    ]


def test_claims_are_checked_by_differences_paired_by_seed():
    """Differences −0.20, −0.19, −0.21: mean −0.2, standard error 0.01/√3; Student's t with two degrees is 4.303."""
    cases = [make_case(), make_case("tram")]
    claims = [Claim("tram", "no-pi"), Claim("no-pi", "tram", par=True)]
    header, _, above, par = claims_table(RUNS, cases, claims).splitlines()
    assert header == "| the paper | difference in NLL | in accuracy, points | here |"
    assert above.startswith("| TRAM above NO-PI | −0.200 [−0.225, −0.175] | +5.0 [−7.4, +17.4] | yes, surely in NLL |")
    assert par.startswith("| NO-PI on par with TRAM | +0.200 [+0.175, +0.225] |")
    assert par.endswith("| no: surely worse in NLL |")
    with_paper = claims_table(RUNS, cases, claims, PAPER).splitlines()
    assert with_paper[2].endswith("| −0.078, +3.1 |")
    unknown = claims_table(RUNS, cases, claims, {"tram": PAPER["tram"]}, points=2).splitlines()
    assert "+5.00 [" in unknown[2]
    assert unknown[2].endswith("|  |")


SURE, UNSURE = 0.01, 10.0


@pytest.mark.parametrize(
    ("nll", "accuracy", "par", "told"),
    [
        ((-1, SURE), (1, SURE), False, "yes, surely in NLL and accuracy"),
        ((-1, SURE), (1, UNSURE), False, "yes, surely in NLL"),
        ((-1, UNSURE), (1, SURE), False, "yes, surely in accuracy"),
        ((-1, UNSURE), (1, UNSURE), False, "yes, not surely"),
        ((1, SURE), (-1, SURE), False, "no, surely worse in NLL and accuracy"),
        ((1, UNSURE), (-1, SURE), False, "no, surely worse in accuracy"),
        ((1, UNSURE), (-1, UNSURE), False, "no, not surely"),
        ((-1, SURE), (-1, SURE), False, "better in NLL, worse in accuracy"),
        ((1, UNSURE), (1, SURE), False, "worse in NLL (not surely), better in accuracy"),
        ((1, SURE), (1, UNSURE), False, "worse in NLL, better in accuracy (not surely)"),
        ((1, UNSURE), (-1, UNSURE), True, "yes"),
        ((-1, SURE), (1, UNSURE), True, "no: surely better in NLL"),
        ((1, UNSURE), (-1, SURE), True, "no: surely worse in accuracy"),
        ((1, SURE), (1, SURE), True, "no: surely worse in NLL and better in accuracy"),
    ],
)
def test_a_claim_is_judged_by_both_scores(nll, accuracy, par, told):
    assert judged(Difference(*nll, 9), Difference(*accuracy, 9), par=par) == told


def test_options_reach_the_method(tmp_path):
    """An option that the method does not have is refused, which shows that options are passed on."""
    open_folder(tmp_path, {})
    with pytest.raises(ValueError, match=r"^Expected .*'rate'\.$"):
        train_cases([replace(make_case("tram"), options={"rate": 1})], [0, 1], tmp_path, score, device=CPU)
