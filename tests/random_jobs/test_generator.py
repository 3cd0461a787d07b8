"""The generator: a seed always gives the same job, every job is whole, and every feature is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.random_jobs.build import build
from tests.random_jobs.changes import CHANGES, change
from tests.random_jobs.data import files_of
from tests.random_jobs.definition import Definition, SourceDef, simpler
from tests.random_jobs.features import second_job
from tests.random_jobs.functions import JOINS, KINDS
from tests.random_jobs.generate import DELAY, definition
from tests.random_jobs.lateness import path_to, sure_files
from tests.random_jobs.process_schedule import steps
from tests.random_jobs.schedule import random_schedule
from tests.random_jobs.split_jobs import split_job, split_schedule

SEEDS = range(1, 400)


def test_a_seed_gives_the_same_job_and_the_same_schedule() -> None:
    for seed in SEEDS:
        assert definition(seed) == definition(seed)
        assert (random_schedule(seed), steps(seed)) == (random_schedule(seed), steps(seed))


def test_a_definition_survives_json() -> None:
    for seed in SEEDS:
        assert Definition.from_json(definition(seed).to_json()) == definition(seed)


@pytest.mark.slow
def test_every_job_and_its_simpler_variants_are_valid(tmp_path: Path) -> None:
    for seed in SEEDS:
        drawn = definition(seed)
        for job in (drawn, *simpler(drawn)):
            build(job, tmp_path).validate()
        assert drawn not in simpler(drawn)


def test_every_kind_of_transform_and_every_feature_is_drawn() -> None:
    drawn = [definition(seed) for seed in SEEDS]
    assert {transform.kind for job in drawn for transform in job.transforms} == set(KINDS)
    assert {transform.output_mode for job in drawn for transform in job.transforms} == {"append", "update", "complete"}
    assert {(s.bounded, s.chain, s.watermark is None) for job in drawn for s in job.sources} == {
        (bounded, chain, marked) for bounded in (True, False) for chain in (True, False) for marked in (True, False)
    }
    assert {(s.format, s.partitioned, s.release) for job in drawn for s in job.sinks} == {
        (form, parted, release)
        for form in ("parquet", "json")
        for parted in (True, False)
        for release in ("every_checkpoint", "final")
    }
    assert {job.mode for job in drawn} == {"auto", "streaming", "batch"}
    assert {len(job.sinks) for job in drawn} == {1, 2, 3}


def test_every_change_is_drawn_and_leaves_a_valid_job(tmp_path: Path) -> None:
    names = set()
    for seed in SEEDS:
        before = definition(seed)
        name, after = change(seed, before)
        assert after != before
        build(after, tmp_path).validate()
        names.add(name)
    assert names == set(CHANGES)


def test_no_row_is_later_than_the_delay_of_its_source() -> None:
    """The rows of a file are compared with everything that may have been read before."""
    for seed in SEEDS:
        for number, source in enumerate(definition(seed).sources):
            assert late_rows(seed, number, replace(source, late=False)) == 0


def test_sources_with_late_rows_have_some() -> None:
    late = [
        late_rows(seed, number, source)
        for seed in SEEDS
        for number, source in enumerate(definition(seed).sources)
        if source.late
    ]
    assert sum(1 for count in late if count) > len(late) / 2
    assert len(late) > len(SEEDS) / 5


def late_rows(seed: int, number: int, source: SourceDef) -> int:
    newest, sources = 0, 0
    for rows in files_of(seed, number, source):
        sources += sum(1 for row in rows if row["second"] <= newest - DELAY)
        newest = max([newest, *(row["second"] for row in rows)])
    return sources


def test_certain_rows_include_all_rows_that_are_not_late() -> None:
    """Check the oracle's rows that no operator may drop."""
    for seed in SEEDS:
        drawn = definition(seed)
        for sink in drawn.sinks:
            way = path_to(drawn, sink)
            if way is None:
                continue
            for number, source in enumerate(sorted(drawn.sources, key=lambda source_def: source_def.uid)):
                files, newest = files_of(seed, number, source), 0
                for rows, sure in zip(files, sure_files(drawn, way)[source.uid], strict=True):
                    assert [row for row in rows if row["second"] > newest - DELAY or row in sure] == sure
                    newest = max([newest, *(row["second"] for row in rows)])


def test_diamonds_are_drawn() -> None:
    """Draw diamonds: united and joined, with operators on both paths and on only one."""
    diamonds = set()
    for seed in SEEDS:
        drawn = definition(seed)
        above = {source.uid: {source.uid} for source in drawn.sources}
        for transform in drawn.transforms:
            inputs = (*transform.inputs, *transform.others)
            above[transform.uid] = {transform.uid}.union(*(above[uid] for uid in inputs))
            if len(inputs) == 2 and above[inputs[0]] & above[inputs[1]]:
                bare = inputs[0] in above[inputs[1]] or inputs[1] in above[inputs[0]]
                diamonds.add((transform.kind in JOINS, bare))
    assert diamonds == {(joined, bare) for joined in (True, False) for bare in (True, False)}


def test_second_jobs_of_every_mode_are_drawn(tmp_path: Path) -> None:
    drawn = [second_job(seed, definition(seed)) for seed in SEEDS]
    seconds = [job for job in drawn if job is not None]
    assert {sink.mode for job in seconds for sink in job.sinks} == {"errorifexists", "append", "overwrite"}
    for job in seconds:
        build(job, tmp_path).validate()


def test_a_seed_gives_the_same_split_job_with_all_sources_read() -> None:
    for seed in SEEDS:
        drawn = split_job(seed)
        assert (drawn, split_schedule(drawn)) == (split_job(seed), split_schedule(split_job(seed)))
        assert {uid for sink in drawn.sinks for uid in sink.inputs} >= {source.uid for source in drawn.sources}


def test_every_event_of_a_job_with_splits_is_drawn() -> None:
    runs = [run for seed in SEEDS for run in split_schedule(split_job(seed)).runs]
    assert {run.kill for run in runs} == {None, "change", "open"}
    assert {rescale.waits for run in runs for rescale in run.rescales} == {"no", "accepted", "answered"}
    assert {(run.restarts, bool(run.fails), run.verbs_fail) for run in runs} >= {
        (False, True, False),
        (True, True, True),
        (True, False, True),
    }
    assert all(any(getattr(run, field) for run in runs) for field in ("stop", "fault", "restore", "once", "slow"))
