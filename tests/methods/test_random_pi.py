import scipy.stats
import torch

from lupi import testing
from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Categorical
from lupi.methods.tram import RandomPI


def many(n=20_000):
    return Annotations(torch.zeros(n, 1), torch.arange(n), torch.ones(n, 2), torch.zeros(n))


def test_features_are_standard_normal_and_independent():
    r = RandomPI(3).append(many()).a[:, 2:]
    assert scipy.stats.kstest(r.flatten().numpy(), "norm").pvalue > 1e-3
    correlation = torch.corrcoef(r.T)
    assert float((correlation - torch.eye(3)).abs().max()) < 0.03


def test_same_vectors_at_every_call_and_others_for_another_seed():
    random, data = RandomPI(4), many(100)
    assert torch.equal(random.append(data).a, random.append(data).a)
    assert not torch.equal(random.append(data).a, RandomPI(4).append(data).a)


def test_annotations_that_training_does_not_see_have_zeros():
    appended = RandomPI(4).append_zeros(many(10))
    assert torch.equal(appended.a, torch.cat([torch.ones(10, 2), torch.zeros(10, 4)], 1))


def test_the_seed_travels_with_the_state():
    one, other, data = RandomPI(4), RandomPI(4), many(10)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.append(data).a, other.append(data).a)


def test_sparse_rows_stay_sparse():
    data = testing.make_data(Categorical())
    sparse = Annotations(data.x, data.row, SparseRows.from_matrix(data.a), data.y)
    random = RandomPI(2)
    appended = random.append(sparse).a
    assert isinstance(appended, SparseRows)
    assert torch.equal(appended[torch.arange(len(data))], random.append(data).a)


def test_no_features_is_no_change():
    data = many(10)
    assert RandomPI(0).append(data) is data
