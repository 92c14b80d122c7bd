import numpy as np
import pytest
import torch

from lupi import testing
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods.slack import miml_fcn_plus
from lupi.settings import Settings
from lupi.training import fit


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()])
def test_loss_is_the_papers(likelihood):
    method = testing.make_method(lambda parts: miml_fcn_plus(parts, weight=0.3), likelihood)
    batch = testing.make_data(likelihood).by_annotation(torch.arange(testing.ANNOTATIONS))
    with torch.no_grad():
        each = likelihood.loss_per_annotation(method.predictor()(batch.x)[batch.row], batch.y).numpy()
        slack = np.log1p(np.exp(method.slack(batch.a).numpy()[:, 0]))
        assert float(method(batch)) == pytest.approx(np.mean(each + 0.3 * (each - slack) ** 2), rel=1e-5)


def test_slack_learns_the_mean_loss_of_each_annotator():
    data = testing.make_data(Categorical())
    method = testing.make_method(miml_fcn_plus, Categorical())
    for part in (method.trunk, method.marginal):
        part.requires_grad_(False)  # a network that does not move
    fit(method, data, Settings(epochs=500, batch_size=40, learning_rate=0.02))
    with torch.no_grad():
        each = Categorical().loss_per_annotation(method.predictor()(data.x[data.row]), data.y)
        for who in range(testing.PRIVILEGED):
            of = data.a[:, who] == 1
            slack = torch.nn.functional.softplus(method.slack(torch.eye(testing.PRIVILEGED)[who]))
            assert float(slack) == pytest.approx(float(each[of].mean()), abs=0.01)
