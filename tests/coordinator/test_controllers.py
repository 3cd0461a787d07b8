"""Controllers of a job: when they are polled, which metrics they see, and how their changes are applied (R21)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import PauseSubtask, PrepareReconfiguration
from airflow_provider_ckpt.coordinator.protocol.effects import Effect, Notice
from airflow_provider_ckpt.coordinator.protocol.reports import (
    QueryMeasured,
    ReconfigurationPrepared,
    ReconfigurationUnfit,
)
from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.job.autoscaler import Autoscaler
from airflow_provider_ckpt.job.controller import Controller, JobMetrics
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
from airflow_provider_ckpt.journal.events import ReconfigurationEnded, Reconfigured, RequestAnswered
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.pause_reason import Reconfigure
from airflow_provider_ckpt.model.progress import BatchProgress
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from tests.coordinator.harness import Harness, events, graph, only, rescale_requested, vertex

B0 = SubtaskId("b/0")
TWO = graph(vertex("a", sources="live"), vertex("b", sources="other", sinks="out"), edges="a>b")
BATCH = BatchProgress(4, 2.0, 1.0, 100, 3, 4096, 1, 50, 9000, 8)


class Policy(Controller):
    """Controller that returns ``answer(number of the poll)`` and records the metrics that it was shown."""

    def __init__(self, answer: Callable[[int], object] = lambda poll: None, **given: Any) -> None:
        super().__init__(**{"every": "10s", "cool_down": "60s", **given})
        self._answer = answer
        self.seen: list[tuple[float, JobMetrics]] = []

    def on_metrics(self, now: float, metrics: JobMetrics) -> Reconfiguration | None:
        self.seen.append((now, metrics))
        answer = self._answer(len(self.seen))
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]

    @property
    def polls(self) -> list[float]:
        return [now for now, _ in self.seen]


def weight(value: int, uid: str = "b") -> Reconfiguration:
    return Reconfiguration("it is slow").assign_resources(uid, pool_weight=value)


def job(*controllers: Controller, **more: Any) -> Harness:
    return Harness(TWO, controllers=controllers, **{"interval": 1000.0, "timeout": 60.0, **more})


def pass_time(harness: Harness, until: float, step: float = 1.0) -> list[Effect]:
    """Let time pass in steps."""
    effects: list[Effect] = []
    while harness.now < until:
        effects += harness.at(harness.now + step)
    return effects


def report_measured(harness: Harness, progress: BatchProgress | None, subtask: str = "b/0") -> None:
    harness.handle(QueryMeasured(**harness.world(subtask), progress=progress))


def carry_out(harness: Harness, number: int = 1) -> list[Effect]:
    harness.prepared("b/0", number)
    effects = harness.paused("b/0", Reconfigure(number))
    return effects + harness.running(B0)


def notices(effects: list[Effect]) -> list[str]:
    return [notice.message for notice in only(Notice, effects)]


# ---- polls


def test_a_controller_is_polled_at_its_interval() -> None:
    policy = Policy()
    harness = job(policy)
    pass_time(harness, 35.0)
    assert policy.polls == [10.0, 20.0, 30.0]
    assert harness.c.next_deadline(harness.now) == 40.0
    assert notices(harness.effects) == []


def test_a_controller_gets_the_metrics_since_its_last_poll() -> None:
    policy = Policy()
    harness = job(policy)
    report_measured(harness, BATCH)
    report_measured(harness, replace(BATCH, batch_id=5, rows=50))
    report_measured(harness, None, "a/0")
    pass_time(harness, 10.0)
    report_measured(harness, None)
    pass_time(harness, 30.0)
    first, second, third = (metrics for _, metrics in policy.seen)
    b = first.queries["b"]
    assert ([batch.batch_id for batch in b.batches], b.rows, b.batch_time, b.is_idle) == ([4, 5], 150, 2.0, False)
    assert (first.queries["a"].batches, first.queries["a"].is_idle) == ((), True)
    assert (second.queries["b"].batches, second.queries["b"].is_idle) == ((), True)
    assert (third.queries["b"].batches, third.queries["b"].is_idle) == ((), False), "no report came from it"
    assert [metrics.elapsed for metrics in (first, second, third)] == [10.0, 10.0, 10.0]


def test_r22_metrics_of_a_replaced_attempt_are_dropped() -> None:
    policy = Policy()
    harness = job(policy, restart_attempts=3)
    old = harness.world("b/0")
    harness.next_attempt("b/0")
    harness.running(B0)
    harness.handle(QueryMeasured(**old, progress=BATCH))
    pass_time(harness, 10.0)
    assert policy.seen[0][1].queries["b"].batches == ()


def test_each_controller_gets_all_metrics() -> None:
    fast, slow = Policy(every="5s"), Policy(every="20s")
    harness = job(fast, slow)
    report_measured(harness, BATCH)
    pass_time(harness, 20.0)
    assert [len(metrics.queries["b"].batches) for _, metrics in fast.seen] == [1, 0, 0, 0]
    assert [len(metrics.queries["b"].batches) for _, metrics in slow.seen] == [1]


def test_a_controller_is_not_polled_before_the_job_runs_or_while_it_ends() -> None:
    policy = Policy()
    harness = job(policy, running=False)
    pass_time(harness, 30.0)
    assert policy.polls == []
    for name in ("a/0", "b/0"):
        harness.running(SubtaskId(name))
    pass_time(harness, 31.0)
    assert policy.polls == [30.0]
    harness.request("stop")
    pass_time(harness, 55.0)
    assert policy.polls == [30.0]


# ---- changes


def test_a_controllers_change_is_applied_with_its_name_and_reason() -> None:
    policy = Policy(lambda poll: weight(3) if poll == 1 else None)
    harness = job(policy)
    effects = pass_time(harness, 10.0)
    assert [prepare.subtask for prepare in only(PrepareReconfiguration, effects)] == [B0]
    assert notices(effects) == ["Policy asks for b: pool_weight=3, because it is slow"]
    effects = carry_out(harness)
    (decided,), (ended,) = events(Reconfigured, effects), events(ReconfigurationEnded, effects)
    assert (decided.by, ended.by, ended.why, ended.request) == ("Policy", "Policy", "it is slow", None)
    assert events(RequestAnswered, harness.effects) == [], "the change comes from no request"


def test_a_controller_is_not_polled_during_its_change_and_cool_down() -> None:
    policy = Policy(lambda poll: weight(poll + 1))
    harness = job(policy)
    pass_time(harness, 40.0)
    assert policy.polls == [10.0], "its change is in progress"
    carry_out(harness)
    pass_time(harness, 99.0)
    assert policy.polls == [10.0]
    pass_time(harness, 101.0)
    assert policy.polls == [10.0, 100.0]


@pytest.mark.parametrize("kind", ["change", "rescale"])
def test_a_controller_is_not_polled_during_and_after_a_users_change(kind: str) -> None:
    policy = Policy()
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=2), splits=True)
    readers = [SubtaskId("parts/0"), SubtaskId("parts/1")]
    restored = RestoredState(splits={"parts": RestoredSplits([f"s{n}" for n in range(40)], readers)})
    of = graph(parts, vertex("b", sources="other", sinks="out"), edges="parts>b")
    harness = Harness(of, controllers=[policy], restored=restored, interval=1000.0, timeout=60.0)
    if kind == "change":
        harness.handle(ReconfigureRequest({"b": VertexSettings(pool_weight=2)}, name="r"))
        pass_time(harness, 30.0)
        carry_out(harness)
    else:
        pass_time(harness, 9.0)
        harness.handle(rescale_requested("parts", 1, "r"))  # no query has to pause, so the change is complete at once
    over = harness.now
    pass_time(harness, over + 59.0)
    assert policy.polls == []
    pass_time(harness, over + 62.0)
    assert len(policy.polls) == 1
    assert policy.seen[0][1].elapsed <= 61.0, "metrics from before the change are not shown"


def test_two_controllers_change_the_job_one_at_a_time() -> None:
    first, second = Policy(lambda poll: weight(2)), Policy(lambda poll: weight(5, "a"))
    harness = job(first, second)
    effects = pass_time(harness, 30.0)
    assert [prepare.subtask for prepare in only(PrepareReconfiguration, effects)] == [B0]
    assert (first.polls, second.polls) == ([10.0], [])


def test_a_new_driver_knows_the_time_of_the_last_change() -> None:
    policy = Policy(cool_down="100s")
    harness = Harness(TWO, controllers=[policy], restored=RestoredState(reconfigured_at=-30.0), interval=1000.0)
    pass_time(harness, 69.0)
    assert policy.polls == []
    pass_time(harness, 71.0)
    assert policy.polls == [70.0]


def test_a_change_time_in_the_future_counts_as_now() -> None:
    policy = Policy()
    harness = job(policy, restored=RestoredState(reconfigured_at=1e9))
    pass_time(harness, 61.0)
    assert policy.polls == [60.0]


# ---- changes that fail


def test_a_refused_change_is_requested_again_at_growing_intervals() -> None:
    policy = Policy(lambda poll: weight(2, "unknown"))
    harness = job(policy, interval=10000.0)
    pass_time(harness, 2000.0)
    at = only(Notice, harness.effects)
    assert "asks for unknown: pool_weight=2, because it is slow: refused: unknown is no operator" in at[0].message
    assert len(at) == 5, "at 10 s, and 120, 240, 480 and 960 s after the previous one"
    assert len(policy.polls) == 200


def test_an_unfit_change_is_delayed_and_another_change_is_not() -> None:
    policy = Policy(lambda poll: weight(2 if poll < 3 else 4))
    harness = job(policy)
    pass_time(harness, 10.0)
    harness.handle(ReconfigurationUnfit(**harness.world("b/0"), trial=harness.trial(), cause="it has other columns"))
    pass_time(harness, 75.0)
    assert policy.polls == [10.0, 70.0]
    assert only(PauseSubtask, harness.effects) == []
    pass_time(harness, 81.0)
    assert len(only(PrepareReconfiguration, harness.effects)) == 2
    assert notices(harness.effects)[-1] == "Policy asks for b: pool_weight=4, because it is slow"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ValueError("no such thing"), "no such thing"),
        (SystemExit("enough"), "enough"),
        ("more", "on_metrics returned 'more', which is no Reconfiguration"),
        (Reconfiguration().take_back("b", "executors"), "a controller takes no setting back: only the next run"),
    ],
)
def test_a_failing_controller_is_switched_off_and_the_job_continues(answer: object, why: str) -> None:
    bad, good = Policy(lambda poll: answer), Policy()
    harness = job(bad, good)
    effects = pass_time(harness, 60.0)
    assert (bad.polls, len(good.polls)) == ([10.0], 6)
    (notice,) = only(Notice, effects)
    assert notice.is_warning
    assert notice.message.startswith(f"Policy failed, and is switched off for this run; the job continues: {why}")
    assert "on_metrics" in str(notice.traceback)
    assert not harness.c.is_over


def test_an_empty_change_is_ignored() -> None:
    policy = Policy(lambda poll: Reconfiguration())
    harness = job(policy)
    pass_time(harness, 30.0)
    assert notices(harness.effects) == []
    assert len(policy.polls) == 3


# ---- the shipped controller


def test_the_autoscaler_gives_a_slow_query_larger_batches() -> None:
    harness = job(Autoscaler("b", max_files_per_batch=(3, 12), polls=2))
    for _ in range(2):
        for number in range(5):
            report_measured(harness, replace(BATCH, batch_id=number))
        pass_time(harness, harness.now + 10.0)
    effects = carry_out(harness)
    (decided,) = events(Reconfigured, effects)
    assert (decided.settings, decided.by) == ({"b": VertexSettings(max_files_per_batch=6)}, "Autoscaler(b)")


def test_a_controller_gets_the_progress_of_a_source_with_splits() -> None:
    watcher = Policy()
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=1, sinks="out"), splits=True)
    restored = RestoredState(splits={"parts": RestoredSplits(range_of(40), [SubtaskId("parts/0")], range(4))})
    harness = Harness(graph(parts), controllers=[watcher], restored=restored, interval=1000.0)
    pass_time(harness, 10.0)
    source = watcher.seen[0][1].sources["parts"]
    assert (source.total, source.done, source.left, source.readers) == (40, 4, 32, 1)
    assert watcher.seen[0][1].queries == {}


def range_of(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


@pytest.mark.parametrize("unfit", [True, False])
def test_a_change_without_effect_is_delayed_whatever_operator_it_names(unfit: bool) -> None:
    """The change may name an operator in the middle of its query.

    Reading a file adds its digest to the change, which must still count as the same change.
    """
    runs = VertexSettings(logic={"clean": "v2.py:job"}, digests={"clean": "d1"})
    inner = graph(replace(vertex("b", sources="live", sinks="out"), operators=("live", "clean", "b")))
    policy = Policy(lambda poll: Reconfiguration().assign_execution_logic("clean", "v2.py:job"))
    restored = RestoredState() if unfit else RestoredState(settings={"b": runs})
    harness = Harness(inner, controllers=(policy,), interval=1000.0, timeout=60.0, restored=restored)
    pass_time(harness, 10.0)
    world = harness.world("b/0")
    if unfit:
        harness.handle(ReconfigurationUnfit(**world, trial=harness.trial(), cause="it does not fit"))
    else:
        harness.handle(ReconfigurationPrepared(**world, trial=harness.trial(), digests=runs.digests))
    (ended,) = events(ReconfigurationEnded, harness.effects)
    assert ended.number == 0
    pass_time(harness, 120.0)
    assert len(only(PrepareReconfiguration, harness.effects)) == 1
    pass_time(harness, 140.0)
    assert len(only(PrepareReconfiguration, harness.effects)) == 2


class Unnamed(Policy):
    """Controller whose name raises an error from the first poll on."""

    is_on = False

    @property
    def name(self) -> str:
        if self.is_on:
            raise ValueError("no name yet")
        return "Unnamed"


class Numbered(Policy):
    name = 7  # type: ignore[assignment]


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Unfinished(Reconfiguration):
    @property
    def changes(self) -> Any:
        raise ValueError("no changes yet")


class Changing(Reconfiguration):
    """Reconfiguration that evades all checks of :class:`Reconfiguration`."""

    def __init__(self, changes: dict[str, Any]) -> None:
        super().__init__()
        self._given = changes

    @property
    def changes(self) -> Any:
        return self._given


def with_reason(why: object) -> Reconfiguration:
    change = weight(2)
    change.why = why  # type: ignore[assignment]
    return change


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (lambda: Policy(lambda poll: with_reason(6.985)), "why of its Reconfiguration is 6.985, not a string"),
        (lambda: Policy(lambda poll: with_reason(["slow"])), "not a string"),
        (lambda: Numbered(lambda poll: weight(2)), "its name is 7, not a string"),
        (lambda: Unnamed(lambda poll: weight(2)), "no name yet"),
        (lambda: Policy(lambda poll: Unfinished("x")), "no changes yet"),
        (lambda: Policy(lambda poll: Reconfiguration.__new__(Reconfiguration)), "why"),
        (lambda: Policy(lambda poll: Mute()), "Mute"),
        (lambda: Policy(lambda poll: Changing({"b": 5})), "VertexSettings"),
        (lambda: Policy(lambda poll: Changing({"b": VertexSettings(pool_weight=cast("Any", "2"))})), "pool_weight"),
    ],
)
def test_r21_an_invalid_answer_fails_the_controller_and_not_the_job(policy: Callable[[], Policy], problem: str) -> None:
    """The journal has the controller's name and reason. With a number in their place, the job could not be read
    again."""
    controller = policy()
    harness = job(controller)
    for uid in ("a/0", "b/0"):
        harness.running(SubtaskId(uid))
    if isinstance(controller, Unnamed):
        controller.is_on = True
    effects = pass_time(harness, 100.0)
    (notice,) = only(Notice, effects)
    name = "7" if isinstance(controller, Numbered) else type(controller).__name__
    assert f"{name} failed, and is switched off for this run; the job continues" in notice.message
    assert problem in notice.message
    assert not events(Reconfigured, effects)
    assert len(controller.seen) == 1


def test_metrics_have_the_query_of_an_operator() -> None:
    policy = Policy()
    harness = job(policy)
    for uid in ("a/0", "b/0"):
        harness.running(SubtaskId(uid))
    report_measured(harness, BATCH)
    pass_time(harness, 15.0)
    metrics = policy.seen[-1][1]
    assert metrics.operators["other"] == "b"
    assert metrics.query_of("other") == metrics.query_of("b") == metrics.queries["b"]
    assert metrics.query_of("nope") is None
