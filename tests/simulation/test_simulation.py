"""The coordinator in random schedules of messages, delays, losses, repeats, crashes and zombies.

The world (``world.py``) checks after every step: the cut holds; ids rise (R10); releases ascend and follow completion
(R9); rows arrive once; nothing follows an end; an older epoch writes nothing (R3, R22); no run ends with an unreleased
completed checkpoint (R16). At the end the job finishes once faults stop, with every row.

``CKPT_SIM_SEEDS`` sets the number of seeds, ``CKPT_SIM_FIRST`` the first one.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.checkpoints.checkpoint_cycle import CheckpointCycle
from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.protocol.commands import TriggerBarrier
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect, Release
from airflow_provider_ckpt.coordinator.protocol.messages import Message
from airflow_provider_ckpt.coordinator.state.pauses import Pause
from airflow_provider_ckpt.coordinator.state.replacement_state import ReplacementState
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus, SubtaskTable
from airflow_provider_ckpt.journal.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointReleased,
    CheckpointTriggered,
    Event,
    PlanRecorded,
    ReconfigurationEnded,
    Reconfigured,
    RequestAnswered,
    StatusChanged,
)
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import ReplaceAttempt
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import Settings
from airflow_provider_ckpt.subtasklog.input_gate import TakeSnapshot
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.task.actions import Action
from airflow_provider_ckpt.task.machine import ReadProgress, TaskMachine
from airflow_provider_ckpt.task.publication import Publication
from tests.simulation.growing import GrowingRunner
from tests.simulation.hastening import HasteningRunner
from tests.simulation.restless import Restless
from tests.simulation.runner import StreamingRunner
from tests.simulation.schedule import Simulation
from tests.simulation.world import BrokenError

SEEDS = int(os.environ.get("CKPT_SIM_SEEDS") or (2 if os.environ.get("CKPT_SLOW", "none") == "none" else 20))
FIRST = int(os.environ.get("CKPT_SIM_FIRST", "0"))
CHUNK = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_every_schedule_keeps_the_invariants_and_finishes(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        _run(seed)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_every_schedule_with_splits_keeps_the_invariants(first: int) -> None:
    """Check assignments, completions and covered splits under drivers with different parallelisms (R14)."""
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        _run(seed, splits=True)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_every_schedule_with_rescaling_keeps_the_invariants(first: int) -> None:
    """Rescale up and down, again and again. Drivers die during changes (R21)."""
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        _run(seed, splits=True, rescales=True)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_every_schedule_with_reconfigurations_keeps_the_invariants(first: int) -> None:
    """Change several queries at once, again and again, also with changes that do not fit.

    Drivers die during changes (R21).
    """
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        _run(seed, reconfigures=True)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_every_schedule_with_composed_changes_keeps_the_invariants(
    first: int,
) -> None:
    """Mix such changes with plain rescales. Drivers die during changes (R21)."""
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        _run(seed, splits=True, rescales=True, reconfigures=True)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_every_schedule_with_a_controller_keeps_the_invariants(first: int) -> None:
    """The controller requests random changes, and the job continues whatever their outcome."""
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        _run(seed, splits=seed % 2 == 0, controls=True)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_every_schedule_with_early_checkpoints_keeps_the_invariants(first: int) -> None:
    """A planned restart is no failure (R7). Changes and rescales happen at the same time."""
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        of_splits = seed % 2 == 0
        _run(seed, runner=GrowingRunner, splits=of_splits, rescales=seed % 4 == 0, reconfigures=seed % 3 == 0)


@pytest.mark.slow
def test_some_schedules_restart_subtasks_from_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some restarts happen while a change is requested, and some changes come first."""
    sent, take, change = list[SubtaskId](), ReplacementState.take_paused, ReplacementState.change
    put_off = list[SubtaskId]()

    def count_restarts(self: ReplacementState) -> list[SubtaskId]:
        subtasks = take(self)
        sent.extend(subtasks)
        return subtasks

    def note_changes(self: ReplacementState, pause: Pause[ReplaceAttempt], batch_id: int, now: float) -> Event | None:
        if self._is_changing:
            put_off.append(pause.subtask)
        return change(self, pause, batch_id, now)

    monkeypatch.setattr(ReplacementState, "take_paused", count_restarts)
    monkeypatch.setattr(ReplacementState, "change", note_changes)
    for seed in range(90):
        _run(seed, runner=GrowingRunner, reconfigures=seed % 3 == 0)
    assert len(sent) > 20
    assert put_off


@pytest.mark.slow
def test_some_schedules_hasten_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    regular, sooner = CheckpointCycle._regular_trigger, set[float]()

    def counted(self: CheckpointCycle, begun: float) -> float:
        due = regular(self, begun)
        if due < begun + self._options.interval:
            sooner.add(begun)
        return due

    monkeypatch.setattr(CheckpointCycle, "_regular_trigger", counted)
    for seed in range(40):
        _run(seed, runner=HasteningRunner)
    assert len(sooner) > 3


@pytest.mark.slow
def test_a_controller_changes_jobs_but_not_twice_within_its_cool_down() -> None:
    changed = 0
    for seed in range(60):
        journal = [(epoch, event) for epoch, event in _run(seed, splits=True, controls=True).world.journal]
        by_epoch: dict[int, list[Reconfigured]] = {}
        for epoch, event in journal:
            if isinstance(event, Reconfigured):
                assert event.by == "Restless"
                by_epoch.setdefault(epoch, []).append(event)
        every = [event for events in by_epoch.values() for event in events]
        assert all(b.at - a.at >= Restless.cool_down for a, b in itertools.pairwise(every)), every
        changed += len(every)
        if changed > 10:
            return
    pytest.fail(f"{changed} changes in 60 schedules")


@pytest.mark.slow
def test_the_schedules_cover_all_cases_of_composed_changes() -> None:
    missing = {"both", "several", "more", "not more", "abandoned", "completed", "left before it ended"}
    for seed in range(430, 830):  # a query that runs while splits are left, and a change of both, is rare
        missing -= _of_composed(_run(seed, splits=True, rescales=True, reconfigures=True))
        if not missing:
            return
    pytest.fail(f"in no schedule: {missing}")


def _of_composed(simulation: Simulation) -> set[str]:
    journal = [event for _, event in simulation.world.journal]
    seen: set[str] = set()
    width: dict[str, int] = {}
    settings: Settings = {}
    numbers = {event.number for event in journal if isinstance(event, ReconfigurationEnded)}
    outcomes = " ".join(str(event.outcome) for event in journal if isinstance(event, RequestAnswered))
    for event in journal:
        if isinstance(event, PlanRecorded):
            width = {vertex.uid: vertex.parallelism for vertex in event.graph.vertices}
        elif isinstance(event, Reconfigured):
            if event.graph is not None:
                after = {vertex.uid: vertex.parallelism for vertex in event.graph.graph.vertices}
                seen |= {"more" if after != width else "not more"}
                seen |= {"several"} if len(event.graph.rescaled) > 1 else set()
                seen |= {"both"} if event.settings != settings else set()
                seen |= {"completed" if event.number in numbers else "left before it ended"}
                width = after
            settings = event.settings
    return seen | ({"abandoned"} if "the job continues unchanged" in outcomes else set())


@pytest.mark.slow
def test_the_schedules_cover_all_cases_of_reconfigurations() -> None:
    missing = {"completed", "refused", "failed", "does not fit", "several", "repartitioned", "left before it ended"}
    missing |= {"failed meanwhile", "is in progress", "is being ended"}
    for seed in range(400):
        missing -= _of_reconfiguring(_run(seed, reconfigures=True))
        if not missing:
            return
    pytest.fail(f"in no schedule: {missing}")


def _of_reconfiguring(simulation: Simulation) -> set[str]:
    journal = [event for _, event in simulation.world.journal]
    answers = [event for event in journal if isinstance(event, RequestAnswered) and event.kind == "reconfigure"]
    seen = {answer.outcome.result.value for answer in answers}
    outcomes = " ".join(str(answer.outcome) for answer in answers)
    seen |= {text for text in ("failed meanwhile", "is in progress", "is being ended") if text in outcomes}
    changes = [event for event in journal if isinstance(event, Reconfigured)]
    ended = {event.number for event in journal if isinstance(event, ReconfigurationEnded)}
    if "other columns" in outcomes:
        seen.add("does not fit")
    if any(len(event.settings) > 1 for event in changes):
        seen.add("several")
    if any(settings.state_partitions for event in changes for settings in event.settings.values()):
        seen.add("repartitioned")
    if {event.number for event in changes} - ended:
        seen.add("left before it ended")
    return seen


def _run(
    seed: int,
    *,
    splits: bool = False,
    rescales: bool = False,
    reconfigures: bool = False,
    controls: bool = False,
    runner: type[StreamingRunner] = StreamingRunner,
) -> Simulation:
    changes = {"rescales": rescales, "reconfigures": reconfigures, "controls": controls}
    simulation = Simulation(seed, Coordinator, runner, splits=splits, **changes)
    try:
        simulation.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    return simulation


@pytest.mark.slow
def test_the_schedules_cover_crashes_stops_and_restarts() -> None:
    """The schedules contain crashes, stops, aborted checkpoints, planned restarts and next attempts."""
    seen: set[str] = set()
    for seed in range(60):
        simulation = _run(seed)
        seen.update(simulation.ends)
        seen.update(type(event).__name__ for _, event in simulation.world.journal)
        seen.update(event.reason for _, event in simulation.world.journal if isinstance(event, CheckpointAborted))
    assert {"died", "STOPPED", "RESTARTING", "FINISHED"} <= seen
    assert {"CheckpointAborted", "SourceDropped", "SourceEnded", "CheckpointReleased", "JOB_FAILOVER_REGION"} <= seen
    assert {"SubtaskRestarting", "SinkReleased"} <= seen


@pytest.mark.slow
def test_some_schedules_stop_with_a_closed_gate() -> None:
    """Otherwise the rules for closed gates would never be checked."""
    for seed in range(200):
        world = _run(seed).world
        stopped = [place for place, (_, event) in enumerate(world.journal) if isinstance(event, StatusChanged)]
        if world.held and any(_stopped_before_release(world.journal[: place + 1]) for place in stopped):
            return
    pytest.fail("200 schedules had none")


def _stopped_before_release(journal: list[tuple[int, Event]]) -> bool:
    """Return whether the run is STOPPED with a completed checkpoint that is not released."""
    last = journal[-1][1]
    completed = [event.checkpoint for _, event in journal if isinstance(event, CheckpointCompleted)]
    released = [event.checkpoint for _, event in journal if isinstance(event, CheckpointReleased)]
    is_stopped = isinstance(last, StatusChanged) and last.status == "STOPPED"
    return is_stopped and max(completed, default=0) > max(released, default=0)


@pytest.mark.slow
def test_the_schedules_cover_all_cases_of_rescaling() -> None:
    """Changes complete, are refused, and are left to the next driver, some before anything has begun."""
    missing = {"completed", "refused", "failed", "begun", "left", "left before it began", "more", "not more", "batch"}
    missing |= {"streaming", "more declared", "while another runs", "while it ends", "all assigned"}
    for seed in range(200):
        missing -= _of_rescaling(_run(seed, splits=True, rescales=True))
        if not missing:
            return
    pytest.fail(f"in no schedule: {missing}")


def _of_rescaling(simulation: Simulation) -> set[str]:
    world = simulation.world
    journal = world.journal
    answers = [event for _, event in journal if isinstance(event, RequestAnswered) and event.kind == "reconfigure"]
    seen = {answer.outcome.result.value for answer in answers}
    outcomes = " ".join(str(answer.outcome) for answer in answers)
    texts = {
        "is in progress": "while another runs",
        "being ended": "while it ends",
        "are assigned": "all assigned",
    }
    seen.update(meaning for text, meaning in texts.items() if text in outcomes)
    graphs: dict[int, JobGraph] = {}
    for epoch, event in journal:
        if isinstance(event, PlanRecorded):
            before = graphs.get(max(graphs, default=0), event.graph)
            seen.update({"more declared"} if event.graph != before else ())
            seen.add("streaming" if event.definition is None else event.definition.mode)
            graphs[epoch] = event.graph
        elif isinstance(event, Reconfigured) and (change := event.graph) is not None:
            new = set(change.graph.subtasks) - set(graphs[epoch].subtasks)
            graphs[epoch] = change.graph
            seen.add("more" if new else "not more")
            begun = new & set(world.begun(epoch))
            done = f"is read by {next(iter(change.rescaled.values()))}" in outcomes
            seen.update({"begun"} if begun else ({"left before it began"} if new else ()))
            seen.update({"left"} if new and not done else ())
    return seen


# -- the simulation must notice each of these defects within a few seeds


class ReleasesOnTrigger(Coordinator):
    def handle(self, message: Message, now: float) -> list[Effect]:
        return _early(super().handle(message, now))

    def tick(self, now: float) -> list[Effect]:
        return _early(super().tick(now))


def _early(effects: list[Effect]) -> list[Effect]:
    out: list[Effect] = []
    for effect in effects:
        out.append(effect)
        if isinstance(effect, Append) and isinstance(effect.event, CheckpointTriggered):
            out.append(Release(effect.event.checkpoint, "out"))
    return out


class TriggersBeforeItIsJournaled(Coordinator):
    def handle(self, message: Message, now: float) -> list[Effect]:
        return _barriers_first(super().handle(message, now))

    def tick(self, now: float) -> list[Effect]:
        return _barriers_first(super().tick(now))


def _barriers_first(effects: list[Effect]) -> list[Effect]:
    return sorted(effects, key=lambda effect: not isinstance(effect, TriggerBarrier))


class FinishesAtOnce(Coordinator):
    """A coordinator whose sinks do not wait for their final checkpoint."""

    def _advance(self, now: float) -> list[Effect]:
        self._state.finals.completed(0, frozenset(self.subtask_statuses()))
        return super()._advance(now)


class DrainsOnlyTheFirstAttempt(Coordinator):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._state.requests.attempt_began = lambda subtask: None  # type: ignore[method-assign]


class SnapshotsLate(Publication):
    """A publication that reads past a barrier, and takes the snapshot after it has published the rows."""

    late: tuple[int, ...] = ()

    def act_on_inputs(self) -> None:
        assert self.inputs is not None
        for action in self.inputs.pull(self._clock()):
            if isinstance(action, TakeSnapshot):
                self.late = (*self.late, action.checkpoint)
            else:
                self.inputs.carry_out(action)

    def publish(self, batch: Batch, *, follows: int | None = None) -> int:
        position = super().publish(batch, follows=follows)
        late, self.late = self.late, ()
        for checkpoint in late:
            self.trigger(checkpoint)
        return position


class PublishesBeforeTheBarrier(StreamingRunner):
    publication_type = SnapshotsLate


class ForgetsTheLastEnd(TaskMachine):
    """A machine that ends when the first of its sources has ended."""

    def _check_end(self, seen: ReadProgress) -> list[Action]:
        return self._end("finish") if seen.ended else super()._check_end(seen)


class EndsTooEarly(StreamingRunner):
    machine_type = ForgetsTheLastEnd


class JournalsTheGraphTooLate(Coordinator):
    """A coordinator whose new subtasks begin before the change is in the journal."""

    def handle(self, message: Message, now: float) -> list[Effect]:
        return self._later(super().handle(message, now))

    def tick(self, now: float) -> list[Effect]:
        return self._later(super().tick(now))

    def _later(self, effects: list[Effect]) -> list[Effect]:
        return sorted(effects, key=lambda effect: isinstance(effect, Append) and isinstance(effect.event, Reconfigured))


class StartsUnannounced(Coordinator):
    """A coordinator that begins new subtasks before their readers know them."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._state.rescaling.reaches_all_consumers = lambda: True  # type: ignore[method-assign]


class ChecksNoStatus(Coordinator):
    """A coordinator that triggers a checkpoint while new subtasks do not run."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        table = self._state.subtasks
        self._state.subtasks.add = lambda subtask, previous: _added(table, subtask, previous)  # type: ignore[method-assign]


def _added(table: SubtaskTable, subtask: SubtaskId, before: AttemptId) -> None:
    SubtaskTable.add(table, subtask, before)
    table._count[SubtaskStatus.RESTARTING] -= 1


class LetsTheSourceEnd(Coordinator):
    """A coordinator that lets a source end during a rescale.

    Readers past its end get no barriers of the new subtasks.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._state.splits.keep_open = lambda uid: None  # type: ignore[method-assign]


class IgnoresNewChannels(StreamingRunner):
    def _widen(self, plan: VertexPlan) -> None:
        """Ignore the channels of new subtasks."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coordinator", "runner", "first"),
    [
        (JournalsTheGraphTooLate, StreamingRunner, 0),
        (StartsUnannounced, StreamingRunner, 0),
        (ChecksNoStatus, StreamingRunner, 10),
        (LetsTheSourceEnd, StreamingRunner, 400),
        (Coordinator, IgnoresNewChannels, 330),
    ],
)
def test_a_defect_of_rescaling_is_noticed(
    coordinator: type[Coordinator], runner: type[StreamingRunner], first: int
) -> None:
    """Check that some seed notices the defect. ``first``: a few seeds before the seed that currently does."""
    for seed in range(first, first + 200):
        try:
            Simulation(seed, coordinator, runner, splits=True, rescales=True).run()
        except BrokenError:
            return
    pytest.fail("200 schedules did not notice the defect")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coordinator", "runner"),
    [
        (ReleasesOnTrigger, StreamingRunner),
        (TriggersBeforeItIsJournaled, StreamingRunner),
        (FinishesAtOnce, StreamingRunner),
        (DrainsOnlyTheFirstAttempt, StreamingRunner),
        (Coordinator, PublishesBeforeTheBarrier),
        (Coordinator, EndsTooEarly),
    ],
)
def test_a_defect_is_noticed(coordinator: type[Coordinator], runner: type[StreamingRunner]) -> None:
    for seed in range(40):
        try:
            Simulation(seed, coordinator, runner).run()
        except BrokenError:
            return
    pytest.fail("40 schedules did not notice the defect")
