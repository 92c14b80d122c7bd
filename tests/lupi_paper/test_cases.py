from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss
from torch import nn

from lupi._internal.parallel import open_cluster
from lupi.compare.cache import RunFolder, open_run_folder
from lupi.compare.engine import to_frame
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical
from lupi.methods import NoPI
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training import Checkpoint
from lupi_paper import cases as module
from lupi_paper.cases import ONE_NETWORK, Case, make_score, train_cases

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
    return Case(
        name=name,
        title=name.upper(),
        method=method or name,
        parts=parts,
        data=data,
        training=Settings(epochs=1),
        options=options,
    )


# -------------------------------------------------------------------------------- scores


def test_scores_of_classes_are_scikit_learns():
    case = make_case()
    method, x = NoPI(nn.Linear(4, 5), nn.Linear(5, 3)), torch.randn(2000, 4)
    y = torch.randint(3, (2000,))
    found = make_score(x, y)(case, method)
    p = torch.softmax(method.predictor()(x).double(), -1).detach().numpy()
    assert found["nll"] == pytest.approx(log_loss(y.numpy(), p / p.sum(1, keepdims=True)), abs=1e-5)
    assert found["accuracy"] == pytest.approx(accuracy_score(y.numpy(), p.argmax(1)))


def test_scores_of_labels_are_the_mean_of_scikit_learns_over_labels():
    case = make_case(likelihood=Bernoulli())
    method, x = NoPI(nn.Linear(4, 5), nn.Linear(5, 3), likelihood=Bernoulli()), torch.randn(2000, 4)
    y = (torch.rand(2000, 3) < torch.tensor([0.1, 0.5, 0.7])).float()
    found = make_score(x, y)(case, method)
    p = torch.sigmoid(method.predictor()(x).double()).detach().numpy()
    labels = range(3)
    assert found["nll"] == pytest.approx(np.mean([log_loss(y[:, k].numpy(), p[:, k]) for k in labels]), abs=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean([accuracy_score(y[:, k].numpy(), p[:, k] > 0.5) for k in labels]))


# -------------------------------------------------------------------------------- training


def score(_, method):
    """Two numbers that depend on the trained weights, one more, and an array."""
    weight = method.predictor()(torch.ones(1, 4)).detach()
    return {"nll": float(weight.mean()), "accuracy": float(weight.std()), "more": 7.0, "kept": weight.numpy()}


def train(cases, seeds, folder, **options):
    with open_run_folder(folder, {}) as kept:
        return to_frame(train_cases(cases, seeds, kept, score, device=CPU, **options))


def test_pairs_are_trained_and_kept(tmp_path):
    cases = [make_case(), make_case("tram"), make_case("slow-tram", method="tram", beta=0.1)]
    runs = train(cases, [3, 4], tmp_path)
    assert list(runs) == ["method", "seed", "nll", "accuracy", "more", "seconds"]
    assert runs[["method", "seed"]].to_numpy().tolist() == [[case.name, seed] for case in cases for seed in (3, 4)]
    assert runs["nll"].nunique() == 6
    assert (runs["seconds"] > 0).all()
    assert RunFolder(tmp_path, {}).load("tram", 4)["kept"].shape == (1, 3)
    pd.testing.assert_frame_equal(train(cases, [3, 4], tmp_path), runs, check_exact=True)  # also seconds


def test_seeds_train_in_groups_and_repeat(tmp_path):
    """Weights depend on the seed, not on the group."""
    one, other = (train([make_case()], range(5), tmp_path / str(n), seeds_at_once=n) for n in (20, 2))
    assert one["nll"].to_numpy() == pytest.approx(other["nll"].to_numpy(), abs=1e-4)


@pytest.mark.parametrize("seeds", [[0, 1], range(4)])
def test_one_network_is_trained_once_and_predicts_as_if_alone(tmp_path, monkeypatch, seeds):
    first = make_case("zero-imputation")
    between = replace(make_case("heteroscedastic-dropout"), parts=first.parts, data=first.data)
    others = [replace(first, name=name, method=name) for name in ONE_NETWORK[1:]]
    others.append(replace(others[0], name="longer", training=Settings(epochs=2)))
    sampled = replace(others[1], name="sampled", options={"samples": 7})
    cases = [first, between, *others, sampled]
    alone = [train([case], seeds, tmp_path / case.name) for case in cases]
    trained, usual = [], module.fit_seeds

    def counted(methods, *rest, **options):
        trained.append(type(methods[0]).__name__)
        return usual(methods, *rest, **options)

    monkeypatch.setattr(module, "fit_seeds", counted)
    together = train(cases, seeds, tmp_path / "together")
    assert trained == ["ZeroImputation", "HeteroscedasticDropout", "MeanImputation", "FullMarginalization"]
    columns = ["method", "seed", "nll", "accuracy"]
    expected = pd.concat(alone, ignore_index=True)
    pd.testing.assert_frame_equal(together[columns], expected[columns], check_exact=True)


def test_options_reach_the_method(tmp_path):
    with pytest.raises(ValueError, match="rate"):
        train([make_case("tram", rate=1)], [0, 1], tmp_path)


def test_a_cluster_trains_as_this_process_does(tmp_path, cluster):
    first = make_case("zero-imputation")
    cases = [make_case(), first, replace(first, name="mean-imputation", method="mean-imputation")]
    expected = train(cases, range(3), tmp_path / "here", seeds_at_once=2)
    with open_cluster(cluster) as workers:
        found = train(cases, range(3), tmp_path / "there", seeds_at_once=2, cluster=workers)
    pd.testing.assert_frame_equal(found.drop(columns="seconds"), expected.drop(columns="seconds"), check_exact=True)
    assert RunFolder(tmp_path / "there", {}).load("no-pi", 2)["kept"].shape == (1, 3)


# -------------------------------------------------------------------------------- inputs that are read


def test_networks_on_inputs_that_are_read_save_checkpoints_and_resume(tmp_path, monkeypatch):
    """An error after the second checkpoint of a training stands for an interruption."""
    case = make_case("tram")
    case = replace(case, data=replace(case.data, x=list(case.data.x)), training=Settings(epochs=3, batch_size=20))
    score = make_score(torch.randn(30, 4, generator=torch.Generator().manual_seed(1)), torch.arange(30) % 3)
    with open_run_folder(tmp_path / "whole", {}) as kept:
        whole = to_frame(train_cases([case], range(2), kept, score, device=CPU, every=2))
    written, write = [], Checkpoint.write

    def write_twice(self, state):
        write(self, state)
        written.append((state["epoch"], state["step"]))
        if len(written) == 7:  # the second one of the second seed
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", write_twice)
    with open_run_folder(tmp_path / "part", {}) as kept:
        with pytest.raises(KeyboardInterrupt):
            train_cases([case], range(2), kept, score, device=CPU, every=2)
        assert {path.name for path in (tmp_path / "part" / "runs").iterdir()} == {"tram-0.npz", "tram-1.pt"}
        monkeypatch.setattr(Checkpoint, "write", write)
        part = to_frame(train_cases([case], range(2), kept, score, device=CPU, every=2))
        assert {path.name for path in (tmp_path / "part" / "runs").iterdir()} == {"tram-0.npz", "tram-1.npz"}
    assert written == [(0, 2), (1, 1), (2, 0), (2, 2), (3, 0), (0, 2), (1, 1)]
    pd.testing.assert_frame_equal(part.drop(columns="seconds"), whole.drop(columns="seconds"), check_exact=True)
