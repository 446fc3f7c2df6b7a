"""Schedules beside torch.profiler's: the same actions, the same calls of on_trace_ready, the same
steps in each trace."""

import itertools
import random
import warnings

import numpy as np
import pytest
import torch
from conftest import ROOT
from profiler_library import ACTIONS, Library, Schedule
from torch.profiler import ProfilerAction, ProfilerActivity

NONE, WARMUP, RECORD, SAVE = range(4)
# PyTorch 2.13 crashes when it records on after these; its state machine is asked without recording.
CRASHES = (RECORD, WARMUP)


@pytest.fixture(scope="module")
def library(tenon):
    return Library(tenon.library)


class Unrecorded(torch.profiler.profile):
    """torch.profiler's state machine, which notes what it would record."""

    def __init__(self, **options):
        super().__init__(**options)
        self.recording, self.names = False, []

    def prepare_trace(self):
        pass

    def start_trace(self):
        self.recording, self.names = True, []

    def stop_trace(self):
        self.recording = False

    def start(self):
        super().start()
        self.note()

    def step(self):
        super().step()
        self.note()

    def note(self):
        if self.recording and self.record_steps:
            self.names.append(f"ProfilerStep#{self.step_num}")


def recorded_by(profiler):
    """The names of steps, and the number of runs of a model with one linear layer."""
    if isinstance(profiler, Unrecorded):
        return list(profiler.names), 0
    names = [event.name() for event in profiler.profiler.kineto_results.events()]
    return [name for name in names if name.startswith("ProfilerStep#")], names.count("aten::linear")


def torch_profile(steps, schedule, recorded=True, work=lambda: None):
    """What Library.profile returns, of torch.profiler."""
    actions, ready = [], []
    profiler = (torch.profiler.profile if recorded else Unrecorded)(
        activities=[ProfilerActivity.CPU],
        schedule=schedule,
        on_trace_ready=lambda p: ready.append((p.step_num, *recorded_by(p))),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd schedules
        profiler.start()
        for step in range(steps):
            if step > 0:
                profiler.step()
            assert profiler.step_num == step
            actions.append(profiler.current_action.value)
            work()
        profiler.stop()
    return actions, ready


def random_schedule(rng):
    numbers = dict(
        wait=rng.choice([0, 0, 1, 2, 5]),
        warmup=rng.choice([0, 1, 1, 2, 4]),
        active=rng.choice([1, 1, 2, 3, 6]),
        repeat=rng.choice([0, 0, 1, 2, 3]),
        skip_first=rng.choice([0, 0, 1, 3, 8]),
        skip_first_wait=rng.choice([0, 0, 1]),
    )
    return numbers, rng.randint(1, 40)


@pytest.mark.parametrize("seed", range(200))
def test_random_schedules(library, seed):
    numbers, steps = random_schedule(random.Random(seed))
    schedule = Schedule(**numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of schedules without warming up
        expected = torch.profiler.schedule(**numbers)
    for step in [*range(60), 10**6, 2**31 + seed]:
        assert library.action(schedule, step) == expected(step).value, step
    assert library.profile(steps, schedule=schedule) == torch_profile(steps, expected)


@pytest.fixture(scope="module")
def models(library):
    """The same model, run by both."""
    module = torch.export.load(ROOT / "examples" / "digits" / "digits.pt2").module()
    x = torch.rand(2, 1, 8, 8)
    run = library.runner(ROOT / "examples" / "digits" / "digits.pt2", x.numpy())
    np.testing.assert_allclose(run(), module(x)["logits"].detach().numpy(), rtol=1e-4, atol=1e-4)
    return run, lambda: module(x)


@pytest.mark.parametrize("seed", range(20))
def test_random_schedules_of_a_model(library, models, seed):
    """Each step runs the model once; the traces hold the runs of the steps that are recorded."""
    numbers, steps = random_schedule(random.Random(seed))
    run, torch_run = models
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schedule = torch.profiler.schedule(**numbers)
    got = library.profile(steps, schedule=Schedule(**numbers), work=run)
    assert got == torch_profile(steps, schedule, work=torch_run)
    assert all(len(names) == runs for _, names, runs in got[1])


def compare_custom(library, actions):
    calls = []

    def tenon_schedule(step):
        calls.append(step)
        return actions[step]

    recorded = CRASHES not in itertools.pairwise(actions)
    expected = torch_profile(len(actions), lambda step: ProfilerAction(actions[step]), recorded)
    got = library.profile(len(actions), function=tenon_schedule)
    assert got == expected, [ACTIONS[action] for action in actions]
    assert calls == list(range(len(actions)))


def test_custom_schedules_of_every_transition(library):
    """All sequences of three actions: every transition, and every way to start and to stop."""
    for actions in itertools.product(range(4), repeat=3):
        compare_custom(library, actions)


@pytest.mark.parametrize("seed", range(100))
def test_random_custom_schedules(library, seed):
    rng = random.Random(seed)
    weights = rng.choice([(1, 1, 1, 1), (1, 0, 3, 1), (1, 1, 1, 4), (3, 2, 2, 1)])
    compare_custom(library, rng.choices(range(4), weights, k=rng.randint(1, 25)))


@pytest.mark.parametrize(
    "actions",
    [
        [WARMUP, NONE, RECORD, NONE],
        [RECORD, NONE, SAVE, NONE],
        [RECORD, WARMUP, RECORD, SAVE, NONE],
        [SAVE] * 6,
        [NONE] * 6,
        [WARMUP] * 6,
        [SAVE, WARMUP, SAVE, WARMUP],
    ],
)
def test_odd_custom_schedules(library, actions):
    compare_custom(library, actions)


@pytest.mark.parametrize("steps", [1, 5])
def test_without_a_schedule(library, steps):
    """Everything is recorded, and steps are not marked."""
    assert library.profile(steps) == torch_profile(steps, None)
    assert library.profile(steps)[1] == [(steps - 1, [], 0)]


def test_actions_that_are_none(library):
    assert library.profile(3, function=lambda step: [2, 4, -1][step])[0] == [RECORD, NONE, NONE]
