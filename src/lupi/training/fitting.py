"""Train a method, or the same method with several seeds."""

import copy
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from operator import itemgetter
from typing import Any

import torch

from lupi._internal.checks import check_integer
from lupi._internal.devices import pick_device, seeded
from lupi._internal.inputs import use_workers
from lupi.data import Annotations, check_privileged
from lupi.methods.base import Method, Stage, list_methods
from lupi.nn.inference import device_of
from lupi.settings import Settings
from lupi.training.checkpoint import (
    Checkpoint,
    Saver,
    check_stage,
    clear_memory,
    describe_network,
    describe_run,
    restore_memory,
    resume_stage,
)
from lupi.training.consensus import stop_by_consensus
from lupi.training.loop import Callback, Epoch, StageLoop, Training
from lupi.training.optimizer import channels_last, check_parts, freeze_parts, works_elementwise
from lupi.training.replicas import Data, Replicas, StackedAnnotations, split_history
from lupi.training.stepper import OneDevice, matrix_precision

MIN_STACKED, MAX_STACKED_PARAMETERS = 4, 200_000
"""Stacking pays off from this number of replicas on and, on a CPU, up to this number of parameters."""


def fit(
    method: Method,
    data: Data,
    settings: Settings = Settings(),
    *,
    validation: Data | None = None,
    seed: int | Sequence[int] = 0,
    device: torch.device | str = "auto",
    fabric: Any = None,
    checkpoint: Checkpoint | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
) -> list[Epoch]:
    """Train a method, stage by stage, and return the history of its losses.

    Modules whose parameters are all frozen, because they do not require gradients or because their part has the
    learning rate 0 in `settings.learning_rates`, are fixed functions: batch norm keeps its statistics, and nothing is
    dropped out.

    Parameters
    ----------
    method : Method
        Trained in place; ends in evaluation mode.
    data : Annotations
        The training set; `StackedAnnotations` for `Replicas`.
    settings : Settings
        How to train; the same for every stage.
    validation : Annotations, optional
        Held-out annotations with their noisy labels, or their true labels where those are known, for the history and
        for `settings.patience`.
    seed : int
        Seed of the order of batches and of noise in training, but not of the initial weights. `Replicas` take a
        sequence, one seed each.
    device : torch.device or str
        Where to train without a Fabric, and where the method stays. By default it trains on a GPU if there is one, and
        returns to where it was.
    fabric : lightning.fabric.Fabric, optional
        For several devices, processes or machines: a launched Fabric. Every process calls `fit` with the same
        arguments.
    checkpoint : Checkpoint, optional
        Where to save the state. If the file exists, training resumes from it.
    progress : bool
        Show progress on standard error.
    callbacks : sequence of callable
        Each is called after every epoch with its row of the history and the method, in evaluation mode and without
        gradients, for instance to log it. If one returns true, the stage ends, as if it had no more
        epochs. With several processes, all must decide alike.

    Returns
    -------
    list of dict
        One row per epoch.

    Examples
    --------
    >>> from torch import nn
    >>> from lupi.methods import NoPI
    >>> data = Annotations(torch.eye(4), torch.arange(4), torch.ones(4, 1), torch.tensor([0, 1, 0, 1]))
    >>> history = fit(NoPI(nn.Identity(), nn.Linear(4, 2)), data, Settings(epochs=2))
    >>> sorted(history[0])
    ['device', 'epoch', 'execution', 'learning_rate', 'stage', 'train_marginal']
    """
    seeds = check_arguments(method, data, settings, validation, seed, fabric)
    check_parts(method, settings.learning_rates)
    home = device_of(method) if fabric is None and device == "auto" else None
    place = OneDevice(pick_device(device), settings.precision) if fabric is None else fabric
    if checkpoint is not None and checkpoint.seconds and place.world_size > 1:
        raise ValueError(f"Expected `seconds` of the checkpoint to be 0 with processes, but got {checkpoint.seconds}.")
    method.to(place.device)
    run = describe_run(method, data, validation, settings, seeds) if checkpoint else {}
    state = checkpoint.read(run) if checkpoint else None
    data = data.to(place.device).normalize_weights()
    data = data if method.models_annotators else data.with_gold()
    training = Training(
        method=method,
        data=data,
        validation=None if validation is None else validation.to(place.device).normalize_weights(),
        settings=settings,
        place=place,
        seeds=seeds,
        history=state["history"] if state else [],
        progress=progress and place.global_rank == 0,
        callbacks=callbacks,
    )
    noise = seeded(seeds[0] + place.global_rank, place.device)
    with noise, matrix_precision(settings.precision), use_workers(settings.workers), ExitStack() as end:
        if home is not None:
            end.callback(method.to, home)
        method.observe(data)  # type: ignore[arg-type] # `Replicas` take `StackedAnnotations`
        if state is not None:  # after `observe`: the networks of a stack observe their own folds later
            method.load_state_dict(state["method"])
            restore_memory(method, state["memory"])
        saver = Saver(checkpoint, run, training)
        with closing(iterate_stages(training)) as stages:
            for number, (stage, networks) in enumerate(stages):
                if state is not None and number < state["stage"]:
                    continue  # trained before the interruption
                train_stage(training, number, stage, networks, saver, state)
                state = None
    if state is not None:
        check_stage(state, "none")
    clear_memory(method)
    method.eval()
    return training.history


def train_stage(
    training: Training, number: int, stage: Stage, networks: list[Method], saver: Saver, state: dict[str, Any] | None
) -> None:
    """Train a stage, from the state of a checkpoint if there is one."""
    assert isinstance(stage.method, Method)  # several are stacked or split
    training = replace(training, settings=stage.adapt(training.settings))
    single = [] if stage.method.is_stacked else networks
    with freeze_parts(stage.method, training.settings.learning_rates), channels_last(single, training.place.device):
        loop = StageLoop(training, stage, number)
        own = set(training.method.modules())
        temporary = [network for network in networks if network not in own]
        if state is not None:
            resume_stage(loop, temporary, state)
        for step in loop.steps():
            saver.save_if_due(step, loop, temporary)
    if stage.finish is not None:
        stage.finish(training.data)  # type: ignore[arg-type]


def iterate_stages(training: Training) -> Generator[tuple[Stage, list[Method]], None, None]:
    """Yield the stages of a method, those of several methods as `Replicas` or one after another.

    With each stage come all methods that its `finish` may read: if they train one after another, all of them. Closing
    this generator closes the method's, and unstacks replicas.
    """
    method, data, settings = training.method, training.data, training.settings
    consensus = training.validation is not None and settings.stops_on_consensus
    with closing(method.stages(data)) as stages:  # type: ignore[arg-type, type-var]
        for stage in stop_by_consensus(stages) if consensus else stages:
            methods = list_methods(stage)
            if isinstance(stage.method, Method):
                yield stage, methods
            elif method.is_stacked or can_stack(stage, data, settings, training.place):
                replicas = Replicas(stage.method)
                replicas.stack()
                try:
                    yield change_sets(stage, StackedAnnotations)._replace(method=replicas), methods
                finally:
                    replicas.separate()
            else:
                yield from ((part, methods) for part in split_stage(stage))


def split_stage(stage: Stage) -> Iterator[Stage]:
    """Split a stage of several methods into one stage each; the last one finishes it."""
    methods = list_methods(stage)
    for number, method in enumerate(methods):
        yield change_sets(stage, itemgetter(number))._replace(
            name=f"{stage.name} {number + 1}/{len(methods)}",
            method=method,
            finish=stage.finish if number == len(methods) - 1 else None,
        )


def change_sets(stage: Stage, change: Callable[[Any], Any]) -> Stage:
    """Return a stage whose functions return their sets changed."""

    def wrap(prepare: Any) -> Any:
        return None if prepare is None else lambda data: change(prepare(data))

    return stage._replace(
        prepare=wrap(stage.prepare),
        prepare_validation=wrap(stage.prepare_validation),
        split_validation=wrap(stage.split_validation),
    )


def can_stack(stage: Stage, data: Data, settings: Settings, place: Any) -> bool:
    """Return whether the methods of a stage can train as replicas, and whether that is faster."""
    methods = list_methods(stage)
    if not isinstance(place, OneDevice) or not pays_to_stack(methods, place.device):
        return False
    if callable(settings.optimizer) and not works_elementwise(settings.optimizer):
        return False
    probes = [copy.deepcopy(method) for method in methods[:2]]
    try:
        sets = StackedAnnotations(stage.prepare(data))  # type: ignore[arg-type]
        if settings.draw == "examples":
            sets.annotations_per_example  # noqa: B018 - raises
        if stage.split_validation is not None:
            StackedAnnotations(stage.split_validation(data))  # type: ignore[arg-type]
        replicas = Replicas(probes)
        replicas.stack()
        two = StackedAnnotations(sets.parts[:2])
        with torch.no_grad(), seeded(0, place.device):
            replicas.losses(two.by_annotation(torch.zeros(2, 2, dtype=torch.int64, device=place.device)))
    except (ValueError, RuntimeError):  # vmap raises a RuntimeError for what it does not support
        return False
    return True


def check_arguments(
    method: Method, data: Data, settings: Settings, validation: Data | None, seed: int | Sequence[int], fabric: Any
) -> list[int]:
    """Check the arguments of `fit`, and return the seeds of replicas, or a single seed."""
    if settings.patience is not None and validation is None:
        raise ValueError("Expected `validation` to be given with `patience`, but got None.")
    if settings.cuda_graph and fabric is not None:
        raise ValueError("Expected `cuda_graph` to be False with a `fabric`, but got True.")
    for name, part in (("data", data), ("validation", validation)):
        if part is not None and len(part) == 0:
            raise ValueError(f"Expected `{name}` to have annotations, but it is empty.")
        for one in () if part is None else part.parts:
            check_privileged(one.a)
    if not method.is_stacked:
        return [check_integer("seed", seed, 0)]
    if isinstance(seed, int) or len(seed) != len(method.replicas):
        raise ValueError(f"Expected one `seed` for each of {len(method.replicas)} replicas, but got {seed!r}.")
    if fabric is not None:
        raise ValueError("Expected `fabric` to be None for replicas, which train on one device, but got one.")
    return [check_integer("seed", one, 0) for one in seed]


def fit_seeds(
    methods: Sequence[Method],
    data: Sequence[Annotations],
    settings: Settings = Settings(),
    *,
    validation: Sequence[Annotations | None] | None = None,
    seeds: Sequence[int],
    device: torch.device | str = "auto",
    progress: bool = False,
) -> list[list[Epoch]]:
    """Train a method with several seeds: together as `Replicas` if possible, else one after another.

    Four or more seeds whose networks and data have the same shape train together. Fewer seeds are faster one after
    another, and so are networks of more than 200,000 parameters on a CPU. A warning explains why methods cannot train
    together.

    Parameters
    ----------
    methods : sequence of Method
        The method of each seed.
    data : sequence of Annotations
        The training set of each seed.
    settings : Settings
        How to train; the same for all seeds.
    validation : sequence of Annotations, optional
        The held-out annotations of each seed.
    seeds : sequence of int
        Seeds of batches and noise.
    device : torch.device or str
        Where to train, as for `fit`.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    list of list of dict
        The history of every seed.

    Examples
    --------
    >>> from torch import nn
    >>> from lupi.methods import NoPI
    >>> data = Annotations(torch.eye(4), torch.arange(4), torch.ones(4, 1), torch.tensor([0, 1, 0, 1]))
    >>> methods = [NoPI(nn.Identity(), nn.Linear(4, 2)) for seed in range(5)]
    >>> histories = fit_seeds(methods, [data] * 5, Settings(epochs=2), seeds=range(5))
    >>> [len(history) for history in histories]
    [2, 2, 2, 2, 2]
    """
    held_out = list(validation) if validation is not None else [None for _ in methods]
    if not any(method.uses_privileged for method in methods):
        data = [part.without_privileged() for part in data]  # so that its shape does not matter
        held_out = [None if part is None else part.without_privileged() for part in held_out]
    runs = list(zip(methods, data, held_out, seeds, strict=True))
    alike: dict[Any, list[int]] = {}
    for number, (method, part, _, _) in enumerate(runs):
        shapes = tuple((name, value.shape) for name, value in method.named_parameters())
        alike.setdefault((describe_network(method), shapes, len(part)), []).append(number)
    histories: dict[int, list[Epoch]] = {}
    where: dict[str, Any] = {"device": device, "progress": progress}
    for group in alike.values():
        chosen = [runs[number] for number in group]
        trained = None
        if pays_to_stack([methods[number] for number in group], pick_device(device)):
            trained = fit_replicas(chosen, settings, where)
        if trained is None:
            trained = [fit(*run[:2], settings, validation=run[2], seed=run[3], **where) for run in chosen]
        histories |= zip(group, trained, strict=True)
    return [histories[number] for number in range(len(runs))]


def pays_to_stack(members: Sequence[Method], device: torch.device | str) -> bool:
    """Return whether training together is faster than one after another."""
    size = sum(parameter.numel() for parameter in members[0].parameters())
    return len(members) >= MIN_STACKED and (size <= MAX_STACKED_PARAMETERS or torch.device(device).type != "cpu")


def fit_replicas(
    runs: Sequence[tuple[Method, Annotations, Annotations | None, int]], settings: Settings, where: dict[str, Any]
) -> list[list[Epoch]] | None:
    """Train methods together; if that is impossible, warn, restore them and return None."""
    members, data, validation, seeds = zip(*runs, strict=True)
    before = [copy.deepcopy(member.state_dict()) for member in members]
    held_out = [part for part in validation if part is not None]
    try:
        stacked = StackedAnnotations(held_out) if held_out else None
        history = fit(Replicas(members), StackedAnnotations(data), settings, validation=stacked, seed=seeds, **where)
    except (ValueError, RuntimeError) as error:  # vmap raises a RuntimeError for what it does not support
        reason = str(error).strip().splitlines()[0]
        warnings.warn(f"Training {len(members)} seeds one after another, not together: {reason}", stacklevel=3)
        for member, weights in zip(members, before, strict=True):
            member.load_state_dict(weights)
        return None
    return split_history(history, len(members))
