from inspect import signature
from threading import Event, Thread

import pytest
import torch
import typer

from lupi import PrivilegedClassifier, PrivilegedRegressor, load
from lupi._internal.devices import one_thread, pick_device
from lupi.cli import app
from lupi.compare import Plan
from lupi.diagnose import Problem
from lupi.serving import train
from lupi.tabular import TableEncoder, TransformerEncoder
from lupi.training import fit, fit_seeds


def test_a_device_is_picked_by_name():
    assert pick_device("cpu") == torch.device("cpu")


def test_by_default_a_gpu_is_picked_if_there_is_one(monkeypatch):
    for found, name in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=found: found)
        assert pick_device("auto") == torch.device(name)


def test_auto_is_the_default_everywhere():
    functions = [PrivilegedClassifier, PrivilegedRegressor, load, Plan, Problem.from_table, train, fit, fit_seeds]
    functions += [TableEncoder, TransformerEncoder]
    assert {signature(function).parameters["device"].default for function in functions} == {"auto"}
    group = typer.main.get_command(app)
    commands = [group.get_command(None, name) for name in group.list_commands(None)]
    options = [option for command in commands for option in command.params if option.name == "device"]
    assert len(options) > 3
    assert {option.default for option in options} == {"auto"}


@pytest.mark.parametrize("name", ["nonsense", "gpu", None, "cuda:x"])
def test_an_unknown_device_is_named(name):
    with pytest.raises(ValueError, match=f"`device`.*{name!r}"):
        pick_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_named():
    with pytest.raises(ValueError, match="no GPU"):
        pick_device("cuda")


@pytest.mark.parametrize("name", ["meta", "hpu", "vulkan", "privateuseone", "fpga", "mtia"])
def test_a_device_that_is_not_there_is_named(name):
    with pytest.raises(ValueError, match=f"`device` to be a device of this machine, but got '{name}'"):
        pick_device(name)


def test_a_gpu_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    pick_device("cuda:1")
    with pytest.raises(ValueError, match="'cuda:2' and torch sees 2 GPUs"):
        pick_device("cuda:2")


@pytest.fixture
def two_threads():
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(usual)


@pytest.mark.usefixtures("two_threads")
def test_threads_are_restored():
    with one_thread():
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_threads_that_meet_do_not_leave_the_limit_behind():
    """The first thread tries to leave while the second is inside, which would then restore the limit."""
    first, second, left, counts = Event(), Event(), Event(), []

    def enter_first():
        with one_thread():
            first.set()
            second.wait(0.2)
            counts.append(torch.get_num_threads())
        left.set()

    def enter_second():
        first.wait()
        with one_thread():
            second.set()
            left.wait(10)
            counts.append(torch.get_num_threads())

    threads = [Thread(target=work) for work in (enter_first, enter_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fresh = Thread(target=lambda: counts.append(torch.get_num_threads()))  # begins with the number of the process
    fresh.start()
    fresh.join()
    assert counts == [1, 1, 2]
    assert torch.get_num_threads() == 2
