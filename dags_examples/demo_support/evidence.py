"""The evidence of a demo, and the checks of it: each claim of the report is one check."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from dags_examples.demo_support.compare import Difference
from dags_examples.demo_support.data import LIVE_MONTH

VERTEX, HISTORY = "flights", "history"
WAITED = "Waiting for the final checkpoint"
RESUMED = re.compile(
    r"resumed from checkpoint (?P<checkpoint>\d+); "
    r"skipped finished operators: (?P<skipped>[\w, ]+); epoch (?P<epoch>\d+)"
)


@dataclass(frozen=True)
class Kill:
    """The kill of the driver.

    Args:
        state: The journal right after the kill.
        processes: pid → name of each killed process.
        survivors: Killed processes that were still alive.
        delivered: Flights of December in the live folder at that moment.
        released: Flights of December that were released at that moment.
    """

    state: JobState
    processes: Mapping[int, str]
    survivors: tuple[int, ...]
    delivered: int
    released: int


@dataclass(frozen=True)
class Evidence:
    kill: Kill
    ended: JobState
    drain: str
    """Name of the drain request."""
    months: Mapping[int, Mapping[int, int]]
    """Checkpoint → month → flights that its release made visible."""
    airflow: Mapping[str, Any]
    """The end of the Dag run (see :mod:`.run_dag`), as for ``report``."""
    log: str
    report: Mapping[str, Any]
    report_log: str
    expected_months: Mapping[int, int]
    actual_months: Mapping[int, int]
    flights: Difference
    delays: Difference
    unlisted: tuple[str, ...]
    """Data files that a reader of the folder sees and no manifest names, and the reverse."""
    left_over: tuple[str, ...]
    """Processes of the demo that still run."""

    def of_history(self, checkpoint: int) -> int:
        return sum(rows for month, rows in self.months.get(checkpoint, {}).items() if month != LIVE_MONTH)

    def of_live(self, checkpoint: int) -> int:
        return self.months.get(checkpoint, {}).get(LIVE_MONTH, 0)

    def resumed(self) -> re.Match[str] | None:
        return RESUMED.search(self.log)


@dataclass(frozen=True)
class Check:
    claim: str
    holds: bool


def both_sources_ran(e: Evidence) -> Check:
    shared = [n for n in _with_history(e, "running") if e.of_history(n) and e.of_live(n)]
    first = min(shared, default=0)
    rows = f"checkpoint {first} released {e.of_history(first):,} flights of history and {e.of_live(first):,} live ones"
    return Check(f"both sources ran side by side: {rows}", bool(shared))


def checkpoints_before_history_ended(e: Evidence) -> Check:
    numbers = [n for n in _with_history(e, "running") if e.of_history(n)]
    return Check(f"checkpoints completed while history was being read: {_listed(numbers)}", bool(numbers))


def checkpoints_after_history_ended(e: Evidence) -> Check:
    numbers = _with_history(e, "finished")
    live = [n for n in numbers if e.of_live(n)]
    claim = (
        f"checkpoints continued after history had finished: {_listed(numbers)}, with live flights in {_listed(live)}"
    )
    return Check(claim, bool(live))


def driver_was_killed_in_the_middle(e: Evidence) -> Check:
    kill = e.kill
    driver = kill.state.worker.pid
    claim = f"the driver (pid {driver}) got kill -9 with {kill.released:,} of {kill.delivered:,} live flights released"
    jvm = "java" in kill.processes.values()
    gone = driver in kill.processes and jvm and not kill.survivors
    dropped = HISTORY in kill.state.dropped.get(VERTEX, {})
    return Check(claim, gone and dropped and kill.state.status is JobStatus.RUNNING and kill.released < kill.delivered)


def airflow_retried(e: Evidence) -> Check:
    task = e.airflow.get("tasks", {}).get("clean", {})
    claim = f"Airflow ran the task again: try {task.get('try_number')}, epoch {e.ended.epoch}, {task.get('state')}"
    succeeded = e.airflow.get("state") == "success" and task.get("state") == "success"
    return Check(claim, succeeded and task.get("try_number") == 2 and (e.kill.state.epoch, e.ended.epoch) == (1, 2))


def retry_resumed(e: Evidence) -> Check:
    said, last = e.resumed(), e.kill.state.last_completed
    claim = f'the retry said "{said[0] if said else "nothing"}"; the last checkpoint before the kill was {last}'
    if said is None:
        return Check(claim, False)
    same = int(said["checkpoint"]) == last > 0 and int(said["epoch"]) == e.ended.epoch
    return Check(claim, same and HISTORY in said["skipped"].split(", "))


def history_was_not_read_again(e: Evidence) -> Check:
    last = e.kill.state.last_completed
    dropped = e.kill.state.dropped.get(VERTEX, {}).get(HISTORY)
    snapshots = [done.subtasks[SubtaskId(f"{VERTEX}/0")] for n, done in e.ended.checkpoints.items() if n > last]
    later = [s for s in snapshots if dropped is not None and s.batch_id is not None and s.batch_id > dropped]
    reread = [s for s in later if HISTORY in s.offsets]
    rows = sum(e.of_history(n) for n in e.months if n > last)
    claim = (
        f"history was not read again: in no micro-batch after checkpoint {last}, {rows} of its flights released there"
    )
    return Check(claim, bool(later) and not reread and not rows)


def final_checkpoint(e: Evidence) -> Check:
    number = e.ended.last_completed
    done = e.ended.checkpoints.get(number)
    operators = set(done.operators) if done else set()
    whole = done is not None and done.kind == "final" and e.ended.last_released == number
    finished = bool(operators) and operators <= set(e.ended.finished_operators())
    claim = f"drained: job {e.ended.status}, checkpoint {number} ({done.kind if done else 'none'}) released, "
    claim += f"{len(e.ended.finished_operators())} operators finished"
    return Check(claim, whole and finished and e.ended.status is JobStatus.FINISHED and e.drain in e.ended.answered)


def flights_are_equal(e: Evidence) -> Check:
    claim = f"flights, row by row: {_compared(e.flights)}; files not in a manifest: {len(e.unlisted)}"
    months = dict(e.expected_months) == dict(e.actual_months)
    return Check(claim, e.flights.equal and e.flights.actual > 0 and months and not e.unlisted)


def delays_are_equal(e: Evidence) -> Check:
    return Check(f"daily delays, row by row: {_compared(e.delays)}", e.delays.equal and e.delays.actual > 0)


def second_dag_waited(e: Evidence) -> Check:
    tasks = e.report.get("tasks", {})
    seen = (tasks.get("released", {}).get("returned") or {}).get("checkpoint")
    counts = tasks.get("count_by_month", {}).get("returned") or {}
    wanted = {f"month={month}": rows for month, rows in e.expected_months.items()}
    claim = f"the second Dag waited for the final checkpoint, saw {seen}, and counted {sum(counts.values()):,} flights"
    waited = WAITED in e.report_log
    right = e.report.get("state") == "success" and seen == e.ended.last_completed and counts == wanted
    return Check(claim, waited and right)


def nothing_is_left(e: Evidence) -> Check:
    return Check(f"processes left behind: {', '.join(e.left_over) or 'none'}", not e.left_over)


CHECKS: tuple[Callable[[Evidence], Check], ...] = (
    both_sources_ran,
    checkpoints_before_history_ended,
    checkpoints_after_history_ended,
    driver_was_killed_in_the_middle,
    airflow_retried,
    retry_resumed,
    history_was_not_read_again,
    final_checkpoint,
    flights_are_equal,
    delays_are_equal,
    second_dag_waited,
    nothing_is_left,
)


def judge(evidence: Evidence) -> list[Check]:
    return [check(evidence) for check in CHECKS]


def _with_history(e: Evidence, state: str) -> list[int]:
    """Return ordinary checkpoints before the kill in which the source history was in ``state``."""
    found = e.kill.state.checkpoints.items()
    return sorted(n for n, done in found if done.operators.get(HISTORY) == state and done.kind == "checkpoint")


def _compared(found: Difference) -> str:
    text = (
        f"{found.expected:,} expected, {found.actual:,} released, {found.missing:,} missing, {found.extra:,} too many"
    )
    return "; ".join([text, *found.examples])


def _listed(numbers: list[int]) -> str:
    """Return numbers as ranges: 1-3, 5."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts) or "none"
