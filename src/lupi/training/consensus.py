"""Early stopping on the consensus of held-out labels, for methods whose predictor estimates the true label."""

import copy
from collections.abc import Iterator
from typing import Any

import torch

from lupi.data import Annotations
from lupi.methods.base import Method, Stage, list_methods
from lupi.methods.explanation import explain
from lupi.methods.no_pi import NoPI
from lupi.nn.inference import over_examples


def stop_by_consensus(stages: Iterator[Stage]) -> Iterator[Stage]:
    """Yield the stages; before each stage of methods that predict the truth, yield one that trains No PI."""
    for stage in stages:
        if stage.split_validation is None and all(method.predicts_truth for method in list_methods(stage)):
            yield from add_consensus(stage)
        else:
            yield stage


def add_consensus(stage: Stage) -> Iterator[Stage]:
    """Yield a stage that trains No PI, then the stage itself, which stops by the consensus of the held-out labels.

    No PI starts from the weights of the predictor. The second stage monitors the loss of its predictor on P(true label
    | all held-out labels, x), whose prior is the prediction of No PI.
    """
    methods = list_methods(stage)
    networks = [NoPI(*copy.deepcopy((m.trunk, m.marginal)), likelihood=m.likelihood) for m in methods]
    single, prepare = isinstance(stage.method, Method), stage.prepare_validation or stage.prepare
    consensus: list[Annotations] = []  # of each method, formed once even if they train one after another

    def save_weights(_: Any) -> None:
        for method, network in zip(methods, networks, strict=True):
            method.consensus.update(network.state_dict())

    def make_consensus(held_out: Any) -> Any:
        if not consensus:
            sets = [prepare(held_out)] if single else prepare(held_out)
            for method, network, part in zip(methods, networks, sets, strict=True):
                network.load_state_dict(method.consensus)
                consensus.append(form_consensus(network, part))
        return consensus[0] if single else consensus

    yield stage._replace(name="consensus", method=networks[0] if single else networks, finish=save_weights)
    yield stage._replace(prepare_validation=make_consensus, validation_losses=measure_predictor)


def form_consensus(network: NoPI, data: Annotations) -> Annotations:
    """Replace the labels of each example with their consensus, P(true label | all labels, x)."""
    rows = data.annotated
    prior = network.likelihood.moments(over_examples(network.predictor(), data.x, rows=rows)).double().cpu().numpy()
    target = explain(data, [prior], network.likelihood, weight=1.0, exponent=None, hedge=False).target
    y = torch.from_numpy(target).to(rows.device, data.dtype)
    return Annotations(data.x, rows, y.new_zeros(len(rows), 0), y, weight=data.weight_examples())


def measure_predictor(method: Method, data: Annotations) -> dict[str, float]:
    """Return the loss of a method's predictor on a consensus."""
    output = over_examples(method.predictor(), data.x, rows=data.row)
    return {"consensus": float(method.likelihood.loss(output, data.y, data.weight))}
