"""Settings that no experiment can have are refused before anything is computed."""

import pytest

from lupi_paper import EXPERIMENTS, load_experiment
from lupi_paper.settings import change_settings

TRAINING = [("epochs", 0), ("batch_size", 0), ("learning_rate", -1.0)]
SYNTHETIC = [("n", 0), ("n", -1), ("n", 10**20), ("noise", 0.0), ("noise", -1.0), ("long", 0), *TRAINING]
IMPOSSIBLE = {
    "linear-risk": [
        ("n", 0),
        ("d", 0),
        ("m", 9),
        ("sigma", 0.0),
        ("draws", 0),
        ("repeats", 10**20),
        ("overlap", (2.0,)),
        ("overlap", (0.5, 0.5)),
        ("pi_variance", (1.0, 1.0)),
    ],
    "information": [
        ("sample", 0),
        ("sample", 10**20),
        ("bins", 1),
        ("folds", 1),
        ("annotations", 0),
        ("noise", ()),
        ("noise", (5e-324,)),
    ],
    "heteroscedastic": [("annotators", 1), ("annotators", 10**20), ("annotations", 0), *TRAINING[:2]],
    "synthetic-regression": SYNTHETIC,
    "noise-sweep": [("n", 0), ("n", 10**20), ("epochs", 0), ("noise", (0.0,)), ("noise", ())],
    "synthetic-classification": SYNTHETIC,
    "cifar10h": TRAINING,
    "relabelled-images": [
        ("epochs", -1),
        ("batch_size", -1),
        ("methods", ("none",)),
        ("width", 1e30),
        ("annotators_width", 1e30),
        ("size", 10**6),
        ("depths", (10**9,)),
        TRAINING[2],
    ],
    "civil-comments": TRAINING,
}


def test_every_experiment_is_listed():
    assert set(IMPOSSIBLE) == set(EXPERIMENTS)


@pytest.mark.parametrize("experiment", IMPOSSIBLE)
def test_impossible_values_are_refused(experiment):
    settings = load_experiment(experiment).Settings()
    seeds = [("seeds", 0), ("seeds", 10**20)] if hasattr(settings, "seeds") else []
    for name, value in [("seed", -1), ("seed", 10**20), *seeds, *IMPOSSIBLE[experiment]]:
        with pytest.raises(ValueError, match=rf"^Expected `{name}` to be "):
            change_settings(settings, [f"{name}={value!r}"])
