"""The generator itself: the same jobs from the same seed, all of them whole, nothing that is never drawn."""

from __future__ import annotations

from pathlib import Path

from tests.random_jobs.build import build
from tests.random_jobs.changes import CHANGES, change
from tests.random_jobs.data import files_of
from tests.random_jobs.definition import Definition, simpler
from tests.random_jobs.functions import KINDS
from tests.random_jobs.generate import DELAY, definition
from tests.random_jobs.process_schedule import steps
from tests.random_jobs.schedule import plan

SEEDS = range(1, 400)


def test_a_seed_gives_the_same_job_and_the_same_schedule() -> None:
    for seed in SEEDS:
        assert definition(seed) == definition(seed)
        assert (plan(seed), steps(seed)) == (plan(seed), steps(seed))


def test_a_definition_survives_its_text() -> None:
    for seed in SEEDS:
        assert Definition.from_json(definition(seed).to_json()) == definition(seed)


def test_every_job_is_whole_and_so_are_the_simpler_ones(tmp_path: Path) -> None:
    for seed in SEEDS:
        drawn = definition(seed)
        for one in (drawn, *simpler(drawn)):
            build(one, tmp_path).validate()
        assert drawn not in simpler(drawn)


def test_every_kind_of_transform_and_every_feature_is_drawn() -> None:
    drawn = [definition(seed) for seed in SEEDS]
    assert {one.kind for job in drawn for one in job.transforms} == set(KINDS)
    assert {one.output_mode for job in drawn for one in job.transforms} == {"append", "update", "complete"}
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


def test_every_change_is_drawn_and_leaves_a_whole_job(tmp_path: Path) -> None:
    names = set()
    for seed in SEEDS:
        before = definition(seed)
        name, after = change(seed, before)
        assert after != before
        build(after, tmp_path).validate()
        names.add(name)
    assert names == set(CHANGES)


def test_no_row_is_later_than_the_delay_of_its_source() -> None:
    """A file's rows are compared with everything that may have been read before it."""
    for seed in SEEDS:
        for number, source in enumerate(definition(seed).sources):
            newest = 0
            for rows in files_of(seed, number, source):
                assert all(row["second"] > newest - DELAY for row in rows)
                newest = max([newest, *(row["second"] for row in rows)])
