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

    def __init__(self, answer: Callable[[int], object] = lambda look: None, **given: Any) -> None:
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
    def looks(self) -> list[float]:
        return [now for now, _ in self.seen]


def weight(value: int, uid: str = "b") -> Reconfiguration:
    return Reconfiguration("it is slow").assign_resources(uid, pool_weight=value)


def job(*controllers: Controller, **more: Any) -> Harness:
    return Harness(TWO, controllers=controllers, **{"interval": 1000.0, "timeout": 60.0, **more})


def lasting(harness: Harness, until: float, step: float = 1.0) -> list[Effect]:
    """Let time pass in steps."""
    effects: list[Effect] = []
    while harness.now < until:
        effects += harness.at(harness.now + step)
    return effects


def measured(harness: Harness, progress: BatchProgress | None, subtask: str = "b/0") -> None:
    harness.handle(QueryMeasured(**harness.world(subtask), progress=progress))


def carried_out(harness: Harness, number: int = 1) -> list[Effect]:
    harness.prepared("b/0", number)
    effects = harness.paused("b/0", Reconfigure(number))
    return effects + harness.running(B0)


def told(effects: list[Effect]) -> list[str]:
    return [one.message for one in only(Notice, effects)]


# ---- polls


def test_it_is_asked_every_so_often_and_its_answers_change_nothing_by_themselves() -> None:
    policy = Policy()
    harness = job(policy)
    lasting(harness, 35.0)
    assert policy.looks == [10.0, 20.0, 30.0]
    assert harness.c.next_deadline(harness.now) == 40.0
    assert told(harness.effects) == []


def test_it_is_shown_what_the_queries_did_since_the_last_look() -> None:
    policy = Policy()
    harness = job(policy)
    measured(harness, BATCH)
    measured(harness, replace(BATCH, batch_id=5, rows=50))
    measured(harness, None, "a/0")
    lasting(harness, 10.0)
    measured(harness, None)
    lasting(harness, 30.0)
    first, second, third = (metrics for _, metrics in policy.seen)
    b = first.queries["b"]
    assert ([one.batch_id for one in b.batches], b.rows, b.batch_time, b.is_idle) == ([4, 5], 150, 2.0, False)
    assert (first.queries["a"].batches, first.queries["a"].is_idle) == ((), True)
    assert (second.queries["b"].batches, second.queries["b"].is_idle) == ((), True)
    assert (third.queries["b"].batches, third.queries["b"].is_idle) == ((), False), "nothing is known of it"
    assert [one.elapsed for one in (first, second, third)] == [10.0, 10.0, 10.0]


def test_r22_what_an_attempt_says_that_is_over_is_not_shown() -> None:
    policy = Policy()
    harness = job(policy, restart_attempts=3)
    old = harness.world("b/0")
    harness.next_attempt("b/0")
    harness.running(B0)
    harness.handle(QueryMeasured(**old, progress=BATCH))
    lasting(harness, 10.0)
    assert policy.seen[0][1].queries["b"].batches == ()


def test_each_sees_all_of_it() -> None:
    fast, slow = Policy(every="5s"), Policy(every="20s")
    harness = job(fast, slow)
    measured(harness, BATCH)
    lasting(harness, 20.0)
    assert [len(metrics.queries["b"].batches) for _, metrics in fast.seen] == [1, 0, 0, 0]
    assert [len(metrics.queries["b"].batches) for _, metrics in slow.seen] == [1]


def test_it_is_not_asked_before_the_job_runs_or_while_it_ends() -> None:
    policy = Policy()
    harness = job(policy, running=False)
    lasting(harness, 30.0)
    assert policy.looks == []
    for name in ("a/0", "b/0"):
        harness.running(SubtaskId(name))
    lasting(harness, 31.0)
    assert policy.looks == [30.0]
    harness.request("stop")
    lasting(harness, 55.0)
    assert policy.looks == [30.0]


# ---- changes


def test_what_it_asks_for_is_done_as_if_somebody_had_asked_and_says_who_and_why() -> None:
    policy = Policy(lambda look: weight(3) if look == 1 else None)
    harness = job(policy)
    effects = lasting(harness, 10.0)
    assert [one.subtask for one in only(PrepareReconfiguration, effects)] == [B0]
    assert told(effects) == ["Policy asks for b: pool_weight=3, because it is slow"]
    effects = carried_out(harness)
    (decided,), (ended,) = events(Reconfigured, effects), events(ReconfigurationEnded, effects)
    assert (decided.by, ended.by, ended.why, ended.request) == ("Policy", "Policy", "it is slow", None)
    assert events(RequestAnswered, harness.effects) == [], "nobody has written a request"


def test_it_is_not_asked_while_its_change_is_under_way_and_for_a_while_behind_it() -> None:
    policy = Policy(lambda look: weight(look + 1))
    harness = job(policy)
    lasting(harness, 40.0)
    assert policy.looks == [10.0], "it is under way"
    carried_out(harness)
    lasting(harness, 99.0)
    assert policy.looks == [10.0]
    lasting(harness, 101.0)
    assert policy.looks == [10.0, 100.0]


@pytest.mark.parametrize("kind", ["change", "rescale"])
def test_it_is_not_asked_while_somebody_elses_change_is_under_way_or_just_over(kind: str) -> None:
    policy = Policy()
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=2), splits=True)
    takers = [SubtaskId("parts/0"), SubtaskId("parts/1")]
    restored = RestoredState(splits={"parts": RestoredSplits([f"s{n}" for n in range(40)], takers)})
    of = graph(parts, vertex("b", sources="other", sinks="out"), edges="parts>b")
    harness = Harness(of, controllers=[policy], restored=restored, interval=1000.0, timeout=60.0)
    if kind == "change":
        harness.handle(ReconfigureRequest({"b": VertexSettings(pool_weight=2)}, name="r"))
        lasting(harness, 30.0)
        carried_out(harness)
    else:
        lasting(harness, 9.0)
        harness.handle(rescale_requested("parts", 1, "r"))  # no query has to pause, so the change is complete at once
    over = harness.now
    lasting(harness, over + 59.0)
    assert policy.looks == []
    lasting(harness, over + 62.0)
    assert len(policy.looks) == 1
    assert policy.seen[0][1].elapsed <= 61.0, "from before the change nothing is shown"


def test_only_one_of_two_controllers_changes_the_job_at_a_time() -> None:
    one, two = Policy(lambda look: weight(2)), Policy(lambda look: weight(5, "a"))
    harness = job(one, two)
    effects = lasting(harness, 30.0)
    assert [one.subtask for one in only(PrepareReconfiguration, effects)] == [B0]
    assert (one.looks, two.looks) == ([10.0], [])


def test_a_driver_that_begins_remembers_when_the_job_was_changed_last() -> None:
    policy = Policy(cool_down="100s")
    harness = Harness(TWO, controllers=[policy], restored=RestoredState(reconfigured_at=-30.0), interval=1000.0)
    lasting(harness, 69.0)
    assert policy.looks == []
    lasting(harness, 71.0)
    assert policy.looks == [70.0]


def test_a_change_by_a_clock_that_is_ahead_is_as_if_it_were_of_now() -> None:
    policy = Policy()
    harness = job(policy, restored=RestoredState(reconfigured_at=1e9))
    lasting(harness, 61.0)
    assert policy.looks == [60.0]


# ---- changes that fail


def test_what_was_refused_is_asked_for_again_ever_more_seldom() -> None:
    policy = Policy(lambda look: weight(2, "nobody"))
    harness = job(policy, interval=10000.0)
    lasting(harness, 2000.0)
    at = only(Notice, harness.effects)
    assert "asks for nobody: pool_weight=2, because it is slow: refused: nobody is no operator" in at[0].message
    assert len(at) == 5, "at 10 s, and 120, 240, 480 and 960 s behind the one before"
    assert len(policy.looks) == 200


def test_what_did_not_fit_is_not_asked_for_again_at_once_and_something_else_is() -> None:
    policy = Policy(lambda look: weight(2 if look < 3 else 4))
    harness = job(policy)
    lasting(harness, 10.0)
    harness.handle(ReconfigurationUnfit(**harness.world("b/0"), trial=harness.trial(), cause="it has other columns"))
    lasting(harness, 75.0)
    assert policy.looks == [10.0, 70.0]
    assert only(PauseSubtask, harness.effects) == []
    lasting(harness, 81.0)
    assert len(only(PrepareReconfiguration, harness.effects)) == 2
    assert told(harness.effects)[-1] == "Policy asks for b: pool_weight=4, because it is slow"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ValueError("no such thing"), "no such thing"),
        (SystemExit("enough"), "enough"),
        ("more", "on_metrics returned 'more', which is no Reconfiguration"),
        (Reconfiguration().take_back("b", "executors"), "a controller takes no setting back: only the next run"),
    ],
)
def test_one_that_fails_is_told_and_switched_off_and_the_others_and_the_job_go_on(answer: object, why: str) -> None:
    bad, good = Policy(lambda look: answer), Policy()
    harness = job(bad, good)
    effects = lasting(harness, 60.0)
    assert (bad.looks, len(good.looks)) == ([10.0], 6)
    (notice,) = only(Notice, effects)
    assert notice.is_warning
    assert notice.message.startswith(f"Policy failed, and is switched off for this run; the job continues: {why}")
    assert "on_metrics" in str(notice.traceback)
    assert not harness.c.is_over


def test_an_empty_change_is_none() -> None:
    policy = Policy(lambda look: Reconfiguration())
    harness = job(policy)
    lasting(harness, 30.0)
    assert told(harness.effects) == []
    assert len(policy.looks) == 3


# ---- the shipped controller


def test_a_query_that_is_behind_gets_more_at_a_time_and_nobody_had_to_ask() -> None:
    harness = job(Autoscaler("b", max_files_per_batch=(3, 12), polls=2))
    for _ in range(2):
        for number in range(5):
            measured(harness, replace(BATCH, batch_id=number))
        lasting(harness, harness.now + 10.0)
    effects = carried_out(harness)
    (decided,) = events(Reconfigured, effects)
    assert (decided.settings, decided.by) == ({"b": VertexSettings(max_files_per_batch=6)}, "Autoscaler(b)")


def test_a_source_with_splits_gets_more_subtasks_and_shows_how_far_it_is() -> None:
    watcher = Policy()
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=1, sinks="out"), splits=True)
    restored = RestoredState(splits={"parts": RestoredSplits(range_of(40), [SubtaskId("parts/0")], range(4))})
    harness = Harness(graph(parts), controllers=[watcher], restored=restored, interval=1000.0)
    lasting(harness, 10.0)
    source = watcher.seen[0][1].sources["parts"]
    assert (source.total, source.done, source.left, source.readers) == (40, 4, 32, 1)
    assert watcher.seen[0][1].queries == {}


def range_of(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


@pytest.mark.parametrize("unfit", [True, False])
def test_what_came_to_nothing_is_not_asked_for_again_at_once_however_it_is_named(unfit: bool) -> None:
    """The change may name an operator in the middle of its query.

    Reading a file adds its digest to the change, which must still count as the same change.
    """
    runs = VertexSettings(logic={"clean": "v2.py:job"}, digests={"clean": "d1"})
    inner = graph(replace(vertex("b", sources="live", sinks="out"), operators=("live", "clean", "b")))
    policy = Policy(lambda look: Reconfiguration().assign_execution_logic("clean", "v2.py:job"))
    restored = RestoredState() if unfit else RestoredState(settings={"b": runs})
    harness = Harness(inner, controllers=(policy,), interval=1000.0, timeout=60.0, restored=restored)
    lasting(harness, 10.0)
    what = harness.world("b/0")
    if unfit:
        harness.handle(ReconfigurationUnfit(**what, trial=harness.trial(), cause="it does not fit"))
    else:
        harness.handle(ReconfigurationPrepared(**what, trial=harness.trial(), digests=runs.digests))
    (ended,) = events(ReconfigurationEnded, harness.effects)
    assert ended.number == 0
    lasting(harness, 120.0)
    assert len(only(PrepareReconfiguration, harness.effects)) == 1
    lasting(harness, 140.0)
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


def reasoned(why: object) -> Reconfiguration:
    found = weight(2)
    found.why = why  # type: ignore[assignment]
    return found


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (lambda: Policy(lambda look: reasoned(6.985)), "why of its Reconfiguration is 6.985, not a string"),
        (lambda: Policy(lambda look: reasoned(["slow"])), "not a string"),
        (lambda: Numbered(lambda look: weight(2)), "its name is 7, not a string"),
        (lambda: Unnamed(lambda look: weight(2)), "no name yet"),
        (lambda: Policy(lambda look: Unfinished("x")), "no changes yet"),
        (lambda: Policy(lambda look: Reconfiguration.__new__(Reconfiguration)), "why"),
        (lambda: Policy(lambda look: Mute()), "Mute"),
        (lambda: Policy(lambda look: Changing({"b": 5})), "VertexSettings"),
        (lambda: Policy(lambda look: Changing({"b": VertexSettings(pool_weight=cast("Any", "2"))})), "pool_weight"),
    ],
)
def test_r21_whatever_comes_of_its_code_fails_it_and_not_the_job(policy: Callable[[], Policy], told: str) -> None:
    """The journal has the controller's name and reason. With a number in their place, the job could not be read
    again."""
    controller = policy()
    harness = job(controller)
    for uid in ("a/0", "b/0"):
        harness.running(SubtaskId(uid))
    if isinstance(controller, Unnamed):
        controller.is_on = True
    effects = lasting(harness, 100.0)
    (notice,) = only(Notice, effects)
    name = "7" if isinstance(controller, Numbered) else type(controller).__name__
    assert f"{name} failed, and is switched off for this run; the job continues" in notice.message
    assert told in notice.message
    assert not events(Reconfigured, effects)
    assert len(controller.seen) == 1


def test_it_is_shown_in_which_query_an_operator_runs() -> None:
    policy = Policy()
    harness = job(policy)
    for uid in ("a/0", "b/0"):
        harness.running(SubtaskId(uid))
    measured(harness, BATCH)
    lasting(harness, 15.0)
    metrics = policy.seen[-1][1]
    assert metrics.operators["other"] == "b"
    assert metrics.query_of("other") == metrics.query_of("b") == metrics.queries["b"]
    assert metrics.query_of("nope") is None
