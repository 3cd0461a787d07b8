"""Controller that keeps up with the input, over simulated series: it grows, shrinks, and does not flap."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_ckpt.job.autoscaler import Autoscaler
from airflow_provider_ckpt.job.controller import JobMetrics, QueryMetrics, SplitMetrics
from airflow_provider_ckpt.job.errors import BadControllerError
from airflow_provider_ckpt.model.progress import BatchProgress
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

EVERY = 10.0
MIB = 1 << 20


@dataclass
class Query:
    """Query over simulated time.

    ``rate``: new files per second at a given time. ``fixed``, ``each``: seconds that a micro-batch takes, and that each
    of its files takes with one state partition.
    """

    rate: Callable[[float], float]
    fixed: float = 0.5
    each: float = 0.05
    interval: float = 1.0
    files: int = 1
    parts: int = 4
    now: float = 0.0
    backlog: float = 0.0
    settings: VertexSettings = field(default_factory=VertexSettings)
    number: int = 0

    def limit(self) -> int:
        return self.settings.max_files_per_batch or self.files

    def width(self) -> int:
        return self.settings.state_partitions or self.parts

    def poll(self) -> QueryMetrics:
        """Simulate the query until the next poll."""
        until, batches = self.now + EVERY, []
        while self.now < until:
            taken = min(int(self.backlog), self.limit())
            duration = self.fixed + taken * self.each * self.parts / self.width()
            if taken:
                self.number += 1
                size, width = taken * MIB, self.width()
                batches.append(
                    BatchProgress(self.number, duration, self.interval, taken, taken, size, state_partitions=width)
                )
            spent = max(duration if taken else 0.0, self.interval or 0.1)
            self.backlog += self.rate(self.now) * spent - taken
            self.now += spent
        return QueryMetrics(tuple(batches), not batches, self.settings)


def run_policy(query: Query, policy: Autoscaler, polls: int) -> list[tuple[str, int]]:
    """Return the policy's changes, in order."""
    changes: list[tuple[str, int]] = []
    for _ in range(polls):
        began = query.now
        metrics = JobMetrics(0.0, {"q": query.poll()}, {})
        asked = policy.on_metrics(query.now, JobMetrics(query.now - began, metrics.queries, {}))
        if asked is not None:
            (settings,) = asked.changes.values()
            assert list(asked.changes) == ["q"]
            assert asked.why
            query.settings = query.settings.changed(settings)
            changes += [(name, value) for name, value in settings.changed_values().items() if isinstance(value, int)]
    return changes


def direction_changes(changes: list[int]) -> int:
    """Return how often the direction changed between growing and shrinking."""
    return sum((b > a) is not (c > b) for a, b, c in zip(changes, changes[1:], changes[2:], strict=False))


def keep_up(**given: Any) -> Autoscaler:
    return Autoscaler("q", **{"max_files_per_batch": (1, 64), **given})


def test_the_autoscaler_follows_a_rising_rate_until_the_backlog_is_gone() -> None:
    query = Query(lambda at: 0.5 if at < 200 else 6.0)
    changes = run_policy(query, keep_up(), 100)
    assert [value for _, value in changes] == [2, 4, 8, 16]
    assert query.backlog < 8


def test_the_autoscaler_changes_nothing_before_the_number_of_polls() -> None:
    query = Query(lambda at: 20.0)
    policy = keep_up(polls=5)
    assert run_policy(query, policy, 4) == []
    assert run_policy(query, policy, 1) == [("max_files_per_batch", 2)]
    assert run_policy(query, policy, 4) == [], "the count starts again after a change"


def test_one_contrary_poll_resets_the_count_of_polls() -> None:
    policy = keep_up(polls=3)
    full, not_full = (metrics(BatchProgress(1, 9.0, 0.0, n, n, n)) for n in (1, 0))
    for seen in (full, full, not_full, full, full):
        assert policy.on_metrics(0.0, seen) is None
    assert policy.on_metrics(0.0, full) is not None


def metrics(*batches: BatchProgress, idle: bool = False, elapsed: float = 10.0, **settings: Any) -> JobMetrics:
    return JobMetrics(elapsed, {"q": QueryMetrics(batches, idle, VertexSettings(**settings))}, {})


def test_the_autoscaler_follows_a_falling_rate_to_the_lower_bound() -> None:
    query = Query(lambda at: 30.0 if at < 300 else 0.2)
    policy = keep_up(idle_polls=6, max_files_per_batch=(2, 64))
    query.files = 2
    run_policy(query, policy, 30)
    top = query.limit()
    assert top >= 16
    changes = run_policy(query, policy, 300)
    assert [value for _, value in changes][-1] == 2
    assert query.limit() == 2
    assert run_policy(query, policy, 100) == []


def test_an_idle_query_shrinks_to_the_lower_bounds_step_by_step() -> None:
    query = Query(lambda at: 0.0, settings=VertexSettings(max_files_per_batch=8, state_partitions=16))
    policy = keep_up(idle_polls=4, state_partitions=(4, 32))
    changes = run_policy(query, policy, 40)
    assert changes == [
        ("state_partitions", 8),
        ("state_partitions", 4),
        ("max_files_per_batch", 4),
        ("max_files_per_batch", 2),
        ("max_files_per_batch", 1),
    ]


def test_an_idle_query_keeps_settings_that_were_never_changed() -> None:
    assert run_policy(Query(lambda at: 0.0, parts=200), keep_up(idle_polls=2, state_partitions=(4, 32)), 20) == []


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mean", [0.7, 3.0, 6.0, 11.0])
def test_a_noisy_rate_does_not_make_the_autoscaler_flap(seed: int, mean: float) -> None:
    """The rate swings about one mean, so the policy takes some steps up and does not repeat steps that it took back."""
    draw = random.Random(seed)
    query = Query(lambda at: draw.uniform(0.2, 1.8) * mean)
    changes = [value for _, value in run_policy(query, keep_up(idle_polls=12), 400)]
    assert direction_changes(changes) <= 1, changes
    assert query.backlog < 200


def test_the_autoscaler_changes_direction_once_for_each_day_and_night() -> None:
    query = Query(lambda at: 10.0 if int(at // 3600) % 2 == 0 else 0.3)
    changes = [value for _, value in run_policy(query, keep_up(), 6 * 360)]
    assert max(changes) > 4
    assert direction_changes(changes) == 5, changes


def test_the_autoscaler_stays_below_the_upper_bound() -> None:
    query = Query(lambda at: 1000.0)
    changes = run_policy(query, keep_up(max_files_per_batch=(1, 6)), 100)
    assert [value for _, value in changes] == [2, 4, 6]


def test_a_query_that_waits_between_full_batches_is_not_too_slow() -> None:
    """Files arrive one at a time, and the limit is one file."""
    policy = keep_up(polls=1)
    assert policy.on_metrics(0.0, metrics(BatchProgress(1, 0.5, 0.0, 1, files=1))) is None
    busy = [BatchProgress(number, 0.5, 0.0, 1, files=1) for number in range(15)]
    assert policy.on_metrics(0.0, metrics(*busy)) is not None


def test_a_poll_in_the_middle_of_a_long_batch_does_not_count() -> None:
    policy = keep_up(polls=2, idle_polls=2)
    full = metrics(BatchProgress(1, 30.0, 0.0, 5, files=4), max_files_per_batch=4)
    assert policy.on_metrics(0.0, full) is None
    for _ in range(10):
        assert policy.on_metrics(0.0, metrics(max_files_per_batch=4)) is None
    asked = policy.on_metrics(0.0, full)
    assert asked is not None
    assert asked.changes["q"].max_files_per_batch == 8


# ---- bytes, and the state partitions


def test_a_byte_limit_is_reached_when_one_more_file_does_not_fit() -> None:
    policy = Autoscaler("q", max_bytes_per_batch=("10m", "40m"), polls=1)
    some = BatchProgress(1, 8.0, 0.0, 1, files=3, size=6 * MIB)
    assert policy.on_metrics(0.0, metrics(some)) is None
    asked = policy.on_metrics(0.0, metrics(BatchProgress(1, 8.0, 0.0, 1, files=3, size=9 * MIB)))
    assert asked is not None
    assert asked.changes["q"].max_bytes_per_batch == 20 * MIB


def test_batches_longer_than_their_interval_get_more_state_partitions() -> None:
    query = Query(lambda at: 6.0, fixed=0.2, each=0.4, files=100)
    policy = Autoscaler("q", state_partitions=(4, 32))
    assert [value for _, value in run_policy(query, policy, 100)][:2] == [8, 16]
    assert query.backlog < 30


def test_state_partitions_grow_where_a_change_of_the_limit_has_no_effect() -> None:
    """Each micro-batch is full and late, and no change of the limit is ever applied."""
    policy = Autoscaler("q", max_files_per_batch=(2, 16), state_partitions=(4, 16), polls=1)
    full = BatchProgress(1, 5.0, 1.0, 2, 2, 2 * MIB, state_partitions=4)
    settings: dict[str, Any] = {}
    asked = []
    for now in range(4):
        wanted = policy.on_metrics(float(now), metrics(full, **settings))
        assert wanted is not None
        (change,) = wanted.changes["q"].changed_values().items()
        asked.append(change)
        if change[0] == "state_partitions":
            settings.update([change])
    assert asked == [("max_files_per_batch", 4), ("state_partitions", 8), ("state_partitions", 16), asked[0]]


def test_the_limit_shrinks_where_state_partitions_are_not_reduced() -> None:
    policy = Autoscaler("q", max_files_per_batch=(2, 16), state_partitions=(4, 16), idle_polls=1)
    quick = BatchProgress(1, 0.1, 1.0, 1, 1, MIB, state_partitions=8)
    asked = []
    for now in range(2):
        wanted = policy.on_metrics(float(now), metrics(quick, max_files_per_batch=8, state_partitions=8))
        assert wanted is not None
        asked += list(wanted.changes["q"].changed_values())
    assert asked == ["state_partitions", "max_files_per_batch"]


def test_state_partitions_grow_from_the_reported_number() -> None:
    policy = Autoscaler("q", state_partitions=(4, 32), polls=1)
    asked = policy.on_metrics(0.0, metrics(BatchProgress(1, 8.0, 1.0, 1, state_partitions=12)))
    assert asked is not None
    assert asked.changes["q"].state_partitions == 24
    assert policy.on_metrics(0.0, metrics(BatchProgress(1, 8.0, 1.0, 1, state_partitions=200))) is None


def test_a_declared_limit_above_the_lower_bound_is_refused() -> None:
    with pytest.raises(
        BadControllerError, match=r"takes? more than max_files_per_batch=1, the lower bound: declare"
    ) as refused:
        keep_up().on_metrics(0.0, metrics(BatchProgress(1, 8.0, 0.0, 1, files=3)))
    assert "`ckpt reconfigure JOB q.max_files_per_batch=1 --root ROOT`" in str(refused.value)


def test_the_autoscaler_ignores_a_query_without_metrics() -> None:
    assert keep_up().on_metrics(0.0, JobMetrics(10.0, {}, {})) is None


def test_an_operator_inside_a_query_stands_for_its_query() -> None:
    policy, full = keep_up(polls=1), metrics(BatchProgress(1, 8.0, 0.0, 1, files=1))
    as_last = {**full.queries}
    chained = JobMetrics(full.elapsed, {"last": as_last["q"]}, {}, {"q": "last", "last": "last"})
    wanted = policy.on_metrics(0.0, chained)
    assert wanted is not None
    assert wanted.changes["q"].max_files_per_batch == 2


# ---- sources with splits


def read_splits_with(policy: Autoscaler, pace: float, polls: int, *, readers: int = 1, total: int = 1000) -> list[int]:
    """Return the numbers of subtasks that the policy asked for; ``pace`` is the splits per second of one subtask."""
    numbers, done, now = [], 0.0, 0.0
    for _ in range(polls):
        now, done = now + EVERY, min(total, done + EVERY * pace * readers)
        source = SplitMetrics(total, int(done), max(0, total - int(done) - readers), readers)
        asked = policy.on_metrics(now, JobMetrics(EVERY, {}, {"q": source}))
        if asked is not None:
            readers = asked.changes["q"].parallelism or 0
            numbers.append(readers)
    return numbers


def test_a_source_with_splits_gets_enough_subtasks_to_finish_in_time() -> None:
    assert read_splits_with(Autoscaler("q", parallelism=(1, 8), within="5m"), 1.0, 30) == [2, 4]
    assert read_splits_with(Autoscaler("q", parallelism=(1, 8), within="1h"), 1.0, 30) == []
    assert read_splits_with(Autoscaler("q", parallelism=(1, 3), within="5s"), 1.0, 60) == [2, 3]


def test_a_source_that_finishes_early_loses_subtasks() -> None:
    policy = Autoscaler("q", parallelism=(1, 8), within="3h", idle_polls=5)
    assert read_splits_with(policy, 0.2, 60, readers=4) == [2, 1]


def test_one_split_is_not_enough_to_measure_the_pace() -> None:
    assert read_splits_with(Autoscaler("q", parallelism=(1, 8), within="1m", polls=1), 0.01, 15) == []


@pytest.mark.parametrize("hours", [1, 6])
def test_recent_splits_decide_the_pace_of_a_source(hours: int) -> None:
    """The policy goes by recent splits: within an hour it notices that the pace fell to a hundredth."""
    before = hours * 3600.0
    total, done, now = int(before) + 5000, 0.0, 0.0
    policy = Autoscaler("q", parallelism=(2, 8), within=before + 6000)
    while now < before + 3600.0:
        now, done = now + EVERY, done + EVERY * (1.0 if now < before else 0.01)
        source = SplitMetrics(total, int(done), total - int(done), 2)
        if policy.on_metrics(now, JobMetrics(EVERY, {}, {"q": source})) is not None:
            break
    assert before < now < before + 3000.0


def test_a_past_stall_adds_no_subtasks() -> None:
    """A database was down for hours and is then read as before. The lost hours must not add subtasks."""
    policy = Autoscaler("q", parallelism=(1, 8), within="24h", cool_down=0)
    done, asked = 0.0, []
    for look in range(1, 4_000):
        done += 0.0 if 1_000 <= look < 3_000 else EVERY * 0.5
        source = SplitMetrics(40_000, int(done), 40_000 - int(done), 1)
        if policy.on_metrics(look * EVERY, JobMetrics(EVERY, {}, {"q": source})) is not None:
            asked.append(look)
    assert [look for look in asked if look > 3_010] == []
    assert len(policy._paces) < 20


# ---- arguments


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "give the bounds of something"),
        ({"max_files_per_batch": (1, 2), "max_bytes_per_batch": (1, 2)}, "not both"),
        ({"parallelism": (1, 2), "max_files_per_batch": (1, 2)}, "no other setting"),
        ({"state_partitions": (8, 4)}, "the smaller one first, not (8, 4)"),
        ({"state_partitions": (0, 4)}, "two whole numbers above 0"),
        ({"state_partitions": 4}, "two whole numbers above 0"),
        ({"state_partitions": (1, 2.5)}, "two whole numbers above 0"),
        ({"state_partitions": (1, 2**31)}, "state_partitions is 2147483647 at the most"),
        ({"state_partitions": (1, 2), "polls": 0}, "polls and idle_polls are whole numbers, 1 or more, not 0"),
        ({"state_partitions": (1, 2), "polls": 2.5}, "whole numbers, 1 or more, not 2.5"),
        ({"state_partitions": (1, 2), "idle_polls": "3"}, "whole numbers, 1 or more, not '3'"),
        ({"state_partitions": (1, 2), "every": 0}, "every is above 0"),
    ],
)
def test_impossible_bounds_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(BadControllerError) as raised:
        Autoscaler("q", **given)
    assert why in str(raised.value)
    assert "Autoscaler(q)" in str(raised.value)


@pytest.mark.parametrize(
    ("given", "theirs"),
    [
        ({"max_files_per_batch": (1, 64)}, {"max_bytes_per_batch": 20 * MIB}),
        ({"max_bytes_per_batch": ("1m", "64m"), "max_files_per_batch": None}, {"max_files_per_batch": 20}),
    ],
)
@pytest.mark.parametrize("rate", [100.0, 0.1], ids=["behind", "idle"])
def test_the_autoscaler_keeps_a_users_limit_of_the_other_kind(
    given: dict[str, Any], theirs: dict[str, Any], rate: float
) -> None:
    """The policy neither replaces that limit nor complains that the job declares a wrong one."""
    query = Query(lambda now: rate, files=20, settings=VertexSettings(**theirs))
    policy = keep_up(**given, polls=1, idle_polls=2)
    assert run_policy(query, policy, 12) == []
