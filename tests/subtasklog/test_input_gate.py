"""Barriers at a consumer's inputs: no entry after a barrier is fed before the snapshot (R10, R19, R24)."""

from __future__ import annotations

import random

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.subtasklog.input_gate import FeedBatch, GateAction, InputGate, InputPassed, TakeSnapshot
from airflow_provider_ckpt.subtasklog.records import Barrier, Batch, EndOfData, EndOfPartition, Open, Record
from tests.subtasklog.samples import batch

EPOCH = 3
QUIET = {"a": False, "b": False}


def barrier(checkpoint: int, epoch: int = EPOCH) -> Barrier:
    return Barrier(epoch, checkpoint, Snapshot(0, None))


def gate(*edges: str, aligned: bool = False, timeout: float | None = None) -> InputGate:
    return InputGate(edges or ("a",), epoch=EPOCH, aligned=aligned, aligned_timeout=timeout)


def offer(input_gate: InputGate, edge: str, *records: Record, start: int = 0) -> None:
    for position, record in enumerate(records, start):
        input_gate.offer(edge, position, record)


def shorthand(actions: list[GateAction]) -> list[str]:
    """Return the actions as short words: "a0" for a fed entry, "!1" for a snapshot."""
    words = []
    for action in actions:
        if isinstance(action, FeedBatch):
            words.append(f"{action.edge}{action.position}")
        elif isinstance(action, TakeSnapshot):
            words.append(f"!{action.checkpoint}")
    return words


# ---- unaligned


def test_entries_after_a_barrier_are_fed_after_the_snapshot() -> None:
    inputs = gate()
    offer(inputs, "a", batch(0), barrier(1), batch(1), barrier(2), batch(2))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["a0", "!1", "a2", "!2", "a4"]


def test_unaligned_the_first_barrier_triggers_the_snapshot() -> None:
    inputs = gate("a", "b")
    offer(inputs, "a", batch(0))
    offer(inputs, "b", barrier(1), batch(1))
    assert shorthand(inputs.poll(0.0, {"a": True, "b": True})) == ["a0", "!1", "b1"]
    offer(inputs, "a", barrier(1), batch(2), start=1)
    assert shorthand(inputs.poll(1.0, QUIET)) == ["a2"]


def test_a_batch_without_files_moves_the_position_and_feeds_nothing() -> None:
    inputs = gate()
    offer(inputs, "a", batch(0, files=0))
    assert inputs.poll(0.0, QUIET) == [InputPassed("a", 1, False)]


def test_only_an_end_of_partition_ends_an_input() -> None:
    inputs = gate()
    offer(inputs, "a", batch(0), EndOfData())
    assert inputs.poll(0.0, QUIET)[-1] == InputPassed("a", 2, False)
    offer(inputs, "a", barrier(1), EndOfPartition(), start=2)
    actions = inputs.poll(0.0, QUIET)
    assert shorthand(actions) == ["!1"]
    assert actions[-1] == InputPassed("a", 4, True)


def test_r10_barriers_of_older_epochs_are_passed_without_a_snapshot() -> None:
    inputs = gate()
    offer(inputs, "a", barrier(7, epoch=2), batch(0), Open(AttemptId(EPOCH, 0, "x"), EPOCH, "x"), barrier(8), batch(1))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["a1", "!8", "a4"]


def test_r10_a_barrier_on_any_input_subsumes_all_below_it() -> None:
    inputs = gate("a", "b")
    offer(inputs, "a", barrier(1), batch(0), barrier(2), batch(1))
    offer(inputs, "b", barrier(2), batch(2))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["a1", "!2", "a3", "b1"]


def test_a_snapshot_is_not_taken_twice() -> None:
    inputs = gate()
    inputs.snapshotted(2)
    offer(inputs, "a", barrier(1), batch(0), barrier(2), batch(1), barrier(3))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["a1", "a3", "!3"]


# ---- aligned


def test_aligned_the_snapshot_waits_for_the_barrier_on_every_input() -> None:
    inputs = gate("a", "b", aligned=True)
    offer(inputs, "a", barrier(1), batch(0))
    assert shorthand(inputs.poll(0.0, QUIET)) == []
    offer(inputs, "b", batch(1))
    assert shorthand(inputs.poll(1.0, QUIET)) == ["b0"]
    offer(inputs, "b", barrier(1), batch(2), start=1)
    assert shorthand(inputs.poll(2.0, {"a": False, "b": True})) == []
    assert shorthand(inputs.poll(3.0, QUIET)) == ["!1", "a1", "b2"]


def test_aligned_the_snapshot_waits_for_entries_fed_in_the_same_poll() -> None:
    inputs = gate(aligned=True)
    offer(inputs, "a", batch(0), barrier(1), batch(1))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["a0"]
    assert shorthand(inputs.poll(1.0, QUIET)) == ["!1", "a2"]


def test_aligned_an_ended_input_counts_as_aligned() -> None:
    inputs = gate("a", "b", aligned=True)
    offer(inputs, "b", EndOfPartition())
    offer(inputs, "a", barrier(1), batch(0))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["!1", "a1"]


def test_aligned_the_ended_input_is_read_to_its_end_first() -> None:
    inputs = gate("a", "b", aligned=True)
    offer(inputs, "a", barrier(1), batch(0))
    offer(inputs, "b", batch(1), EndOfPartition())
    assert shorthand(inputs.poll(0.0, QUIET)) == ["b0"]
    assert shorthand(inputs.poll(1.0, QUIET)) == ["!1", "a1"]


def test_aligned_barriers_become_unaligned_after_the_timeout() -> None:
    inputs = gate("a", "b", aligned=True, timeout=10.0)
    offer(inputs, "a", barrier(1), batch(0))
    assert shorthand(inputs.poll(100.0, QUIET)) == []
    assert shorthand(inputs.poll(109.9, {"a": True, "b": True})) == []
    assert shorthand(inputs.poll(110.0, {"a": True, "b": True})) == ["!1", "a1"]


def test_aligned_the_timeout_restarts_for_each_checkpoint() -> None:
    inputs = gate("a", "b", aligned=True, timeout=10.0)
    offer(inputs, "a", barrier(1), batch(0), barrier(2), batch(1))
    inputs.poll(0.0, QUIET)
    assert shorthand(inputs.poll(10.0, QUIET)) == ["!1", "a1"]
    assert shorthand(inputs.poll(12.0, QUIET)) == []
    assert shorthand(inputs.poll(19.9, QUIET)) == []
    assert shorthand(inputs.poll(20.0, QUIET)) == ["!2", "a3"]


def test_r10_an_aborted_checkpoint_does_not_block_the_next_one() -> None:
    inputs = gate("a", "b", aligned=True)
    offer(inputs, "a", barrier(1), batch(0), barrier(2))
    offer(inputs, "b", barrier(2))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["a1"]
    assert shorthand(inputs.poll(1.0, QUIET)) == ["!2"]


# ---- any schedule


class Schedule:
    """Random life of a consumer: inputs grow, the consumer polls, and batches read the fed entries."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.edges = [f"e{number}" for number in range(self.random.randint(1, 3))]
        self.aligned = self.random.random() < 0.5
        self.timeout = self.random.choice([None, 5.0])
        self.logs: dict[str, list[Record]] = {edge: [] for edge in self.edges}
        self.offered = dict.fromkeys(self.edges, 0)
        self.gate = InputGate(self.edges, epoch=EPOCH, aligned=self.aligned, aligned_timeout=self.timeout)
        self.unread = dict.fromkeys(self.edges, False)
        self.fed: dict[str, list[int]] = {edge: [] for edge in self.edges}
        self.snapshots: list[int] = []
        self.now = 0.0
        self.checkpoint = 0

    def grow(self) -> None:
        edge = self.random.choice(self.edges)
        log = self.logs[edge]
        if log and isinstance(log[-1], EndOfPartition):
            return
        kind = self.random.random()
        if kind < 0.55:
            log.append(batch(len(log), files=self.random.choice([0, 1, 1])))
        elif kind < 0.65:
            log.append(barrier(self.random.randint(1, 9), epoch=EPOCH - 1))
        elif kind < 0.70:
            log.append(EndOfPartition())
        else:
            self.barriers()

    def barriers(self) -> None:
        """Trigger a checkpoint. An earlier one that was aborted may have reached only some inputs."""
        self.checkpoint += 1
        for edge in self.edges:
            log = self.logs[edge]
            ended = bool(log) and isinstance(log[-1], EndOfPartition)
            if not ended and self.random.random() < 0.9:
                log.append(barrier(self.checkpoint))

    def offer(self) -> None:
        edge = self.random.choice(self.edges)
        end = self.random.randint(self.offered[edge], len(self.logs[edge]))
        for position in range(self.offered[edge], end):
            self.gate.offer(edge, position, self.logs[edge][position])
        self.offered[edge] = end

    def read(self) -> None:
        self.unread[self.random.choice(self.edges)] = False

    def trigger(self) -> None:
        if self.random.random() < 0.1 and self.checkpoint > max(self.snapshots, default=0):
            self.snapshots.append(self.checkpoint)
            self.gate.snapshotted(self.checkpoint)

    def poll(self) -> None:
        self.now += self.random.choice([0.0, 0.5, 3.0])
        for action in self.gate.poll(self.now, dict(self.unread)):
            self.act(action)

    def act(self, action: GateAction) -> None:
        if isinstance(action, TakeSnapshot):
            assert action.checkpoint > max(self.snapshots, default=0), "snapshots ascend, each is taken once"
            if self.aligned and self.timeout is None:
                assert not any(self.unread.values()), "an aligned snapshot has everything that was fed"
            self.snapshots.append(action.checkpoint)
        elif isinstance(action, FeedBatch):
            self.feed(action)
        else:
            data = [position for position in range(action.position) if self.has_data(action.edge, position)]
            assert self.fed[action.edge] == data, "what was passed was fed"

    def feed(self, action: FeedBatch) -> None:
        assert action.position not in self.fed[action.edge], "fed once"
        assert action.position > max(self.fed[action.edge], default=-1), "fed in order"
        before = self.logs[action.edge][: action.position]
        passed = [r.checkpoint for r in before if isinstance(r, Barrier) and r.epoch == EPOCH]
        for checkpoint in passed:
            subsumed = any(
                isinstance(record, Barrier) and record.epoch == EPOCH and record.checkpoint > checkpoint
                for edge, log in self.logs.items()
                for record in log[: self.offered[edge]]
            )
            taken = checkpoint <= max(self.snapshots, default=0)
            assert taken or subsumed, f"{action.edge}{action.position} was fed past barrier {checkpoint}"
        self.fed[action.edge].append(action.position)
        self.unread[action.edge] = True

    def has_data(self, edge: str, position: int) -> bool:
        record = self.logs[edge][position]
        return isinstance(record, Batch) and bool(record.files)

    def settle(self) -> None:
        """Offer, read and poll everything, after which all data must have been fed."""
        self.barriers()
        for edge in self.edges:
            if not self.logs[edge] or not isinstance(self.logs[edge][-1], EndOfPartition):
                self.logs[edge].append(EndOfPartition())
            for position in range(self.offered[edge], len(self.logs[edge])):
                self.gate.offer(edge, position, self.logs[edge][position])
            self.offered[edge] = len(self.logs[edge])
        for _ in range(len(self.edges) * (self.checkpoint + 2)):
            self.poll()
            self.unread = dict.fromkeys(self.edges, False)
        for edge, log in self.logs.items():
            data = [position for position in range(len(log)) if self.has_data(edge, position)]
            assert self.fed[edge] == data, f"all of {edge} is fed in the end"


@pytest.mark.parametrize("block", range(8))
def test_no_schedule_feeds_past_a_barrier_without_a_snapshot(block: int) -> None:
    for seed in range(block * 250, (block + 1) * 250):
        schedule = Schedule(seed)
        steps = [schedule.grow, schedule.grow, schedule.offer, schedule.offer, schedule.poll, schedule.read]
        steps.append(schedule.trigger)
        try:
            for _ in range(schedule.random.randint(5, 60)):
                schedule.random.choice(steps)()
            schedule.settle()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


# ---- one batch at a time


def one_by_one(*edges: str, aligned: bool = False) -> InputGate:
    return InputGate(edges or ("a",), epoch=EPOCH, aligned=aligned, aligned_timeout=5.0, one_by_one=["a"])


def test_rows_that_replace_earlier_ones_are_fed_one_batch_at_a_time() -> None:
    inputs = one_by_one("a", "b")
    offer(inputs, "a", batch(0), batch(1, files=0), batch(2), batch(3))
    offer(inputs, "b", batch(0), batch(1))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["a0", "b0", "b1"]
    assert shorthand(inputs.poll(1.0, {"a": True, "b": False})) == []
    assert shorthand(inputs.poll(2.0, QUIET)) == ["a2"]
    assert shorthand(inputs.poll(3.0, QUIET)) == ["a3"]


def test_entries_fed_by_an_earlier_attempt_are_read_first() -> None:
    inputs = one_by_one()
    offer(inputs, "a", batch(0))
    assert shorthand(inputs.poll(0.0, {"a": True})) == []


def test_unaligned_a_barrier_does_not_wait_for_queued_batches() -> None:
    inputs = one_by_one()
    offer(inputs, "a", batch(0), batch(1), barrier(1), batch(2), barrier(2))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["a0", "!1", "!2"]
    assert shorthand(inputs.poll(1.0, QUIET)) == ["a1"]
    assert shorthand(inputs.poll(2.0, QUIET)) == ["a3"]


def test_aligned_a_barrier_waits_for_queued_batches() -> None:
    inputs = one_by_one("a", "b", aligned=True)
    offer(inputs, "a", batch(0), batch(1), barrier(1))
    offer(inputs, "b", barrier(1))
    assert shorthand(inputs.poll(0.0, QUIET)) == ["a0"]
    assert shorthand(inputs.poll(1.0, QUIET)) == ["a1"]
    assert shorthand(inputs.poll(2.0, QUIET)) == ["!1"]
