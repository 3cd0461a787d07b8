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

    def look(self) -> QueryMetrics:
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


def watched(query: Query, policy: Autoscaler, looks: int) -> list[tuple[str, int]]:
    """Return the policy's changes, in order."""
    changes: list[tuple[str, int]] = []
    for _ in range(looks):
        began = query.now
        metrics = JobMetrics(0.0, {"q": query.look()}, {})
        asked = policy.on_metrics(query.now, JobMetrics(query.now - began, metrics.queries, {}))
        if asked is not None:
            (one,) = asked.changes.values()
            assert list(asked.changes) == ["q"]
            assert asked.why
            query.settings = query.settings.changed(one)
            changes += [(name, value) for name, value in one.changed_values().items() if isinstance(value, int)]
    return changes


def turns(changes: list[int]) -> int:
    """Return how often the direction changed between growing and shrinking."""
    return sum((b > a) is not (c > b) for a, b, c in zip(changes, changes[1:], changes[2:], strict=False))


def keep_up(**given: Any) -> Autoscaler:
    return Autoscaler("q", **{"max_files_per_batch": (1, 64), **given})


def test_a_rate_that_rises_is_followed_and_the_backlog_goes() -> None:
    query = Query(lambda at: 0.5 if at < 200 else 6.0)
    changes = watched(query, keep_up(), 100)
    assert [value for _, value in changes] == [2, 4, 8, 16]
    assert query.backlog < 8


def test_nothing_is_changed_before_so_many_looks_said_so() -> None:
    query = Query(lambda at: 20.0)
    policy = keep_up(polls=5)
    assert watched(query, policy, 4) == []
    assert watched(query, policy, 1) == [("max_files_per_batch", 2)]
    assert watched(query, policy, 4) == [], "it counts anew behind a change"


def test_one_look_that_says_otherwise_begins_to_count_anew() -> None:
    policy = keep_up(polls=3)
    full, not_full = (metrics(BatchProgress(1, 9.0, 0.0, n, n, n)) for n in (1, 0))
    for seen in (full, full, not_full, full, full):
        assert policy.on_metrics(0.0, seen) is None
    assert policy.on_metrics(0.0, full) is not None


def metrics(*batches: BatchProgress, idle: bool = False, elapsed: float = 10.0, **settings: Any) -> JobMetrics:
    return JobMetrics(elapsed, {"q": QueryMetrics(batches, idle, VertexSettings(**settings))}, {})


def test_a_rate_that_falls_is_followed_down_to_the_lower_bound_and_no_further() -> None:
    query = Query(lambda at: 30.0 if at < 300 else 0.2)
    policy = keep_up(idle_polls=6, max_files_per_batch=(2, 64))
    query.files = 2
    watched(query, policy, 30)
    top = query.limit()
    assert top >= 16
    changes = watched(query, policy, 300)
    assert [value for _, value in changes][-1] == 2
    assert query.limit() == 2
    assert watched(query, policy, 100) == []


def test_an_idle_query_gives_back_what_it_had_and_never_less_than_the_job_declares() -> None:
    query = Query(lambda at: 0.0, settings=VertexSettings(max_files_per_batch=8, state_partitions=16))
    policy = keep_up(idle_polls=4, state_partitions=(4, 32))
    changes = watched(query, policy, 40)
    assert changes == [
        ("state_partitions", 8),
        ("state_partitions", 4),
        ("max_files_per_batch", 4),
        ("max_files_per_batch", 2),
        ("max_files_per_batch", 1),
    ]


def test_what_nobody_has_changed_is_not_given_back() -> None:
    assert watched(Query(lambda at: 0.0, parts=200), keep_up(idle_polls=2, state_partitions=(4, 32)), 20) == []


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mean", [0.7, 3.0, 6.0, 11.0])
def test_a_noisy_rate_does_not_make_it_flap(seed: int, mean: float) -> None:
    """The rate swings about one mean, so the policy takes some steps up and does not repeat steps that it took back."""
    draw = random.Random(seed)
    query = Query(lambda at: draw.uniform(0.2, 1.8) * mean)
    changes = [value for _, value in watched(query, keep_up(idle_polls=12), 400)]
    assert turns(changes) <= 1, changes
    assert query.backlog < 200


def test_a_rate_that_swings_between_day_and_night_is_followed_once_each() -> None:
    query = Query(lambda at: 10.0 if int(at // 3600) % 2 == 0 else 0.3)
    changes = [value for _, value in watched(query, keep_up(), 6 * 360)]
    assert max(changes) > 4
    assert turns(changes) == 5, changes


def test_no_more_than_the_upper_bound() -> None:
    query = Query(lambda at: 1000.0)
    changes = watched(query, keep_up(max_files_per_batch=(1, 6)), 100)
    assert [value for _, value in changes] == [2, 4, 6]


def test_a_query_that_pauses_between_full_batches_is_not_behind() -> None:
    """Files arrive one at a time, and the limit is one file."""
    policy = keep_up(polls=1)
    assert policy.on_metrics(0.0, metrics(BatchProgress(1, 0.5, 0.0, 1, files=1))) is None
    busy = [BatchProgress(number, 0.5, 0.0, 1, files=1) for number in range(15)]
    assert policy.on_metrics(0.0, metrics(*busy)) is not None


def test_a_look_in_the_middle_of_a_long_batch_says_nothing() -> None:
    policy = keep_up(polls=2, idle_polls=2)
    full = metrics(BatchProgress(1, 30.0, 0.0, 5, files=4), max_files_per_batch=4)
    assert policy.on_metrics(0.0, full) is None
    for _ in range(10):
        assert policy.on_metrics(0.0, metrics(max_files_per_batch=4)) is None
    asked = policy.on_metrics(0.0, full)
    assert asked is not None
    assert asked.changes["q"].max_files_per_batch == 8


# ---- bytes, and the state partitions


def test_a_limit_of_bytes_is_full_when_one_more_file_would_not_go_in() -> None:
    policy = Autoscaler("q", max_bytes_per_batch=("10m", "40m"), polls=1)
    some = BatchProgress(1, 8.0, 0.0, 1, files=3, size=6 * MIB)
    assert policy.on_metrics(0.0, metrics(some)) is None
    asked = policy.on_metrics(0.0, metrics(BatchProgress(1, 8.0, 0.0, 1, files=3, size=9 * MIB)))
    assert asked is not None
    assert asked.changes["q"].max_bytes_per_batch == 20 * MIB


def test_batches_that_take_longer_than_their_interval_get_more_parts_of_the_state() -> None:
    query = Query(lambda at: 6.0, fixed=0.2, each=0.4, files=100)
    policy = Autoscaler("q", state_partitions=(4, 32))
    assert [value for _, value in watched(query, policy, 100)][:2] == [8, 16]
    assert query.backlog < 30


def test_where_the_limit_is_refused_the_parts_of_the_state_are_changed() -> None:
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


def test_where_the_parts_are_not_taken_back_the_limit_is() -> None:
    policy = Autoscaler("q", max_files_per_batch=(2, 16), state_partitions=(4, 16), idle_polls=1)
    quick = BatchProgress(1, 0.1, 1.0, 1, 1, MIB, state_partitions=8)
    asked = []
    for now in range(2):
        wanted = policy.on_metrics(float(now), metrics(quick, max_files_per_batch=8, state_partitions=8))
        assert wanted is not None
        asked += list(wanted.changes["q"].changed_values())
    assert asked == ["state_partitions", "max_files_per_batch"]


def test_the_number_of_parts_that_was_seen_counts_and_not_the_bound() -> None:
    policy = Autoscaler("q", state_partitions=(4, 32), polls=1)
    asked = policy.on_metrics(0.0, metrics(BatchProgress(1, 8.0, 1.0, 1, state_partitions=12)))
    assert asked is not None
    assert asked.changes["q"].state_partitions == 24
    assert policy.on_metrics(0.0, metrics(BatchProgress(1, 8.0, 1.0, 1, state_partitions=200))) is None


def test_a_job_that_declares_another_limit_than_the_lower_bound_is_told() -> None:
    with pytest.raises(
        BadControllerError, match=r"takes? more than max_files_per_batch=1, the lower bound: declare"
    ) as refused:
        keep_up().on_metrics(0.0, metrics(BatchProgress(1, 8.0, 0.0, 1, files=3)))
    assert "`ckpt reconfigure JOB q.max_files_per_batch=1 --root ROOT`" in str(refused.value)


def test_a_query_that_is_not_there_is_left_alone() -> None:
    assert keep_up().on_metrics(0.0, JobMetrics(10.0, {}, {})) is None


def test_an_operator_in_the_middle_of_a_query_stands_for_the_query() -> None:
    policy, full = keep_up(polls=1), metrics(BatchProgress(1, 8.0, 0.0, 1, files=1))
    as_last = {**full.queries}
    chained = JobMetrics(full.elapsed, {"last": as_last["q"]}, {}, {"q": "last", "last": "last"})
    wanted = policy.on_metrics(0.0, chained)
    assert wanted is not None
    assert wanted.changes["q"].max_files_per_batch == 2


# ---- sources with splits


def reading(policy: Autoscaler, pace: float, looks: int, *, readers: int = 1, total: int = 1000) -> list[int]:
    """Return the numbers of subtasks that the policy asked for; ``pace`` is the splits per second of one subtask."""
    found, done, now = [], 0.0, 0.0
    for _ in range(looks):
        now, done = now + EVERY, min(total, done + EVERY * pace * readers)
        source = SplitMetrics(total, int(done), max(0, total - int(done) - readers), readers)
        asked = policy.on_metrics(now, JobMetrics(EVERY, {}, {"q": source}))
        if asked is not None:
            readers = asked.changes["q"].parallelism or 0
            found.append(readers)
    return found


def test_a_source_with_splits_gets_as_many_subtasks_as_it_takes_to_be_read_in_time() -> None:
    assert reading(Autoscaler("q", parallelism=(1, 8), within="5m"), 1.0, 30) == [2, 4]
    assert reading(Autoscaler("q", parallelism=(1, 8), within="1h"), 1.0, 30) == []
    assert reading(Autoscaler("q", parallelism=(1, 3), within="5s"), 1.0, 60) == [2, 3]


def test_it_gives_subtasks_back_when_it_will_be_read_long_before() -> None:
    policy = Autoscaler("q", parallelism=(1, 8), within="3h", idle_polls=5)
    assert reading(policy, 0.2, 60, readers=4) == [2, 1]


def test_a_pace_is_not_told_by_one_split() -> None:
    assert reading(Autoscaler("q", parallelism=(1, 8), within="1m", polls=1), 0.01, 15) == []


@pytest.mark.parametrize("hours", [1, 6])
def test_a_pace_of_long_ago_says_nothing_about_what_is_left(hours: int) -> None:
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


def test_a_stall_that_is_over_is_forgotten() -> None:
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
def test_bounds_that_cannot_be_are_refused(given: dict[str, Any], why: str) -> None:
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
def test_a_limit_of_the_other_kind_that_somebody_sets_is_theirs(
    given: dict[str, Any], theirs: dict[str, Any], rate: float
) -> None:
    """The policy neither replaces that limit nor complains that the job declares a wrong one."""
    query = Query(lambda now: rate, files=20, settings=VertexSettings(**theirs))
    policy = keep_up(**given, polls=1, idle_polls=2)
    assert watched(query, policy, 12) == []
