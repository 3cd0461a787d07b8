"""Random jobs with sources with splits, and their faults, drawn from a seed.

This generator is separate, because here the readers of splits matter, and not the queries on their rows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from airflow_provider_ckpt.testing.crash import When

Kill = Literal["change", "open"]
Waits = Literal["no", "accepted", "answered"]
LIVE = "live"
SLOW = (0.0, 0.0, 0.3, 0.8)
WAITS: tuple[Waits, ...] = ("no", "accepted", "accepted", "answered")
LATE_WAITS: tuple[Waits, ...] = ("accepted", "accepted", "accepted", "no")


@dataclass(frozen=True)
class SplitSource:
    """A source with splits. ``rows``: number of rows of each split."""

    uid: str
    rows: tuple[int, ...]


@dataclass(frozen=True)
class SplitSink:
    """A sink. ``inputs``: united by a transform of the sink's own. ``direct``: one source without a transform."""

    uid: str
    inputs: tuple[str, ...]
    direct: bool
    release: str = "every_checkpoint"


@dataclass(frozen=True)
class SplitJob:
    """A job. ``files``: of the live feed, if a sink reads it; ``at_start``: those that exist at the start."""

    seed: int
    sources: tuple[SplitSource, ...]
    sinks: tuple[SplitSink, ...]
    files: int
    at_start: int
    mode: str
    interval: float
    retained: int

    @property
    def has_live(self) -> bool:
        return any(LIVE in sink.inputs for sink in self.sinks)

    def __str__(self) -> str:
        feed = f"  {LIVE}: {self.files} files, {self.at_start} at the start" if self.has_live else "  no live feed"
        head = f"seed {self.seed}: mode {self.mode}, interval {self.interval}, retained {self.retained}"
        return "\n".join([head, *(f"  {part}" for part in (*self.sources, *self.sinks)), feed])


@dataclass(frozen=True)
class Rescale:
    """A rescale, requested once ``behind`` splits of the source were started in this run.

    ``waits``: reading pauses until it is accepted (old subtasks may end before the new ones begin), or until it is
    answered.
    """

    uid: str
    parallelism: int
    behind: int
    waits: Waits


@dataclass(frozen=True)
class SplitRun:
    """One run.

    ``parallelism``: declared, by source. ``fault``: the storages are gone from this verb on (``when``; ``once``: for
    that verb only). ``kill``: they are gone after the first change of the graph, or when a new subtask's log is opened.
    ``stop``: requested at this status line. ``fails``: the function raises at these splits, counted as started.
    ``verbs_fail``: any write below the vertices may fail. ``restore``: return to the last completed checkpoint.
    ``slow``: extra seconds of each batch. ``most``: ``max_splits_per_batch`` of all sources. ``stays_down``: a failed
    split fails once more, when it is read alone.
    """

    parallelism: Mapping[str, int]
    fault: int | None = None
    when: When = "before"
    once: bool = False
    kill: Kill | None = None
    stop: int | None = None
    fails: tuple[int, ...] = ()
    restarts: bool = False
    verbs_fail: bool = False
    restore: bool = False
    rescales: tuple[Rescale, ...] = ()
    slow: float = 0.0
    drains: bool = True
    most: int | None = None
    stays_down: bool = False


@dataclass(frozen=True)
class SplitSchedule:
    """The runs of a job. ``feeding``: probability that a live file is added at a status line.

    ``anew``: no checkpoint is due in the first run, and later runs have another column type. So the job restarts from
    scratch next to old logs. ``loses``: results of a batch job are lost between two runs.
    """

    runs: tuple[SplitRun, ...]
    feeding: float
    anew: bool = False
    loses: bool = False

    def __str__(self) -> str:
        head = f"  feeding {self.feeding}{', anew behind the first run' if self.anew else ''}"
        head += ", loses results" if self.loses else ""
        return "\n".join([head, *(f"  {run}" for run in self.runs)])


def split_job(seed: int) -> SplitJob:
    rng = random.Random(seed * 37 + 5)
    sources = tuple(_source(rng, f"parts{number}") for number in range(rng.choice([1, 1, 2])))
    uids = [source.uid for source in sources]
    live = rng.random() < 0.65
    sinks: list[SplitSink] = []
    if rng.random() < 0.75:  # several sources in one query
        sinks.append(SplitSink("out", (*uids, *([LIVE] if live else [])), direct=False))
    if live and (not sinks or rng.random() < 0.2):
        sinks.append(SplitSink("feed", (LIVE,), direct=True))
    read = {uid for sink in sinks for uid in sink.inputs}
    for uid in uids:
        if uid not in read or rng.random() < 0.3:
            release = "final" if rng.random() < 0.2 else "every_checkpoint"
            sinks.append(SplitSink(f"raw_{uid}", (uid,), direct=True, release=release))
        if rng.random() < 0.25:
            sinks.append(SplitSink(f"more_{uid}", (uid,), direct=False))
    return SplitJob(
        seed=seed,
        sources=sources,
        sinks=tuple(sinks),
        files=rng.randint(1, 4),
        at_start=rng.randint(0, 2),
        mode="auto" if live else rng.choice(["streaming", "streaming", "batch", "auto"]),
        interval=rng.choice([0.1, 0.3, 0.3, 0.6]),
        retained=rng.choice([1, 2, 3]),
    )


def _source(rng: random.Random, uid: str) -> SplitSource:
    count = rng.choice([rng.randint(1, 4), rng.randint(8, 16), rng.randint(12, 24), rng.randint(12, 24)])
    return SplitSource(uid, tuple(0 if rng.random() < 0.15 else rng.randint(1, 4) for _ in range(count)))


def split_schedule(job: SplitJob) -> SplitSchedule:
    rng = random.Random(~job.seed)
    declared = {source.uid: rng.choice([1, 1, 2, 3, 4]) for source in job.sources}
    runs = []
    for _ in range(rng.choice([0, 1, 1, 2, 2])):
        runs.append(_run(rng, job, declared))
        for uid in declared:
            if rng.random() < 0.35:
                declared[uid] = rng.randint(1, 5)
    runs.append(_last(rng, job, declared))
    schedule = SplitSchedule(tuple(runs), rng.choice([0.3, 0.6, 1.0]))
    if rng.random() < 0.2:
        schedule = _restarted_from_scratch(rng, job, schedule)
    schedule = replace(schedule, loses=rng.random() < 0.5)
    return replace(schedule, runs=tuple(_together(rng, run) for run in schedule.runs))


def _together(rng: random.Random, run: SplitRun) -> SplitRun:
    return replace(run, most=rng.choice([None, None, 1, 5, 64, 64]), stays_down=rng.random() < 0.5)


def _restarted_from_scratch(rng: random.Random, job: SplitJob, drawn: SplitSchedule) -> SplitSchedule:
    """Several subtasks have read when the first run dies.

    The job restarts from scratch with one, and gets others whose logs exist.
    """
    splits = [len(source.rows) for source in job.sources]
    many, single = ({source.uid: count for source in job.sources} for count in (rng.randint(2, 4), 1))
    first = SplitRun(many, fails=(rng.randint(1, sum(splits)),), slow=rng.choice(SLOW))
    more = tuple(
        Rescale(source.uid, rng.randint(2, 5), rng.randint(1, max(1, len(source.rows) // 4)), rng.choice(WAITS))
        for source in job.sources
    )
    rest = [replace(run, parallelism=single, restore=False) for run in drawn.runs]
    return SplitSchedule((first, replace(rest[0], rescales=more), *rest[1:]), drawn.feeding, anew=True)


def _run(rng: random.Random, job: SplitJob, declared: Mapping[str, int]) -> SplitRun:
    end = rng.choice(["fault", "fault", "kill", "kill", "stop", "fails"])
    restarts = rng.random() < 0.4
    return SplitRun(
        parallelism=dict(declared),
        fault=rng.choice([rng.randint(10, 50), rng.randint(20, 120)]) if end == "fault" else None,
        when=rng.choice(["before", "after"]),
        once=rng.random() < 0.15,
        kill=rng.choice(["change", "open"]) if end == "kill" else None,
        stop=rng.randint(1, 5) if end == "stop" else None,
        fails=_fails(rng, job, end == "fails") if end == "fails" or restarts else (),
        restarts=restarts,
        verbs_fail=restarts and rng.random() < 0.4,
        restore=rng.random() < 0.15,
        rescales=_rescales(rng, job, declared, kills=end == "kill"),
        slow=rng.choice(SLOW),
        drains=rng.random() < 0.5,
    )


def _last(rng: random.Random, job: SplitJob, declared: Mapping[str, int]) -> SplitRun:
    restarts = rng.random() < 0.6
    return SplitRun(
        parallelism=dict(declared),
        fails=_fails(rng, job, False) if restarts else (),
        restarts=restarts,
        verbs_fail=restarts and rng.random() < 0.5,
        restore=rng.random() < 0.1,
        rescales=_rescales(rng, job, declared, kills=False),
        slow=rng.choice(SLOW),
    )


def _rescales(rng: random.Random, job: SplitJob, declared: Mapping[str, int], *, kills: bool) -> tuple[Rescale, ...]:
    """Draw rescales. ``kills``: the first one asks for more subtasks, and the run is killed during it."""
    rescales = []
    for number in range(rng.choice([1, 1, 2, 3] if kills else [0, 1, 1, 2, 3])):
        source = rng.choice(job.sources)
        first_kills = kills and number == 0
        more = rng.random() < 0.7 or first_kills
        wanted = declared[source.uid] + rng.randint(1, 3) if more else rng.randint(1, 4)
        splits = len(source.rows)
        if rng.random() < 0.35 and not first_kills:  # few splits are left, and their readers may end first
            behind, waits = rng.randint(max(1, splits - 6), max(1, splits - 1)), rng.choice(LATE_WAITS)
        else:
            behind, waits = rng.randint(1, max(1, splits // 4)), rng.choice(WAITS)
        rescales.append(Rescale(source.uid, wanted, behind, waits))
    return tuple(sorted(rescales, key=lambda rescale: rescale.behind))


def _fails(rng: random.Random, job: SplitJob, at_least_one: bool) -> tuple[int, ...]:
    count = rng.choice([1, 1, 2] if at_least_one else [0, 0, 1, 2, 3])
    splits = sum(len(source.rows) for source in job.sources)
    return tuple(sorted({rng.randint(1, splits) for _ in range(count)}))
