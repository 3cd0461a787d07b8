"""Second jobs in the folders of a FINISHED one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.sinks.errors import TargetRefusedError
from tests.random_jobs.between import Values
from tests.random_jobs.definition import Definition, SinkDef
from tests.random_jobs.expected import manifests, released
from tests.random_jobs.in_process import InProcess, Story
from tests.random_jobs.invariants import check_folder
from tests.random_jobs.schedule import RunPlan, Schedule


class SecondJob(InProcess):
    """A second job with its own root and data, under ``second`` in the folder of the first.

    Raises AssertionError unless it adds rows, replaces rows, or is refused. At every moment the first job's rows must
    be complete or gone.
    """

    def __init__(self, first: InProcess, definition: Definition, schedule: Schedule) -> None:
        base = first.world.base / "second"
        folders = {sink.uid: first.world.base / sink.place for sink in first.definition.sinks}
        sinks = tuple(replace(sink, folder=str(first.world.base / sink.place)) for sink in definition.sinks)
        super().__init__(first.spark, replace(definition, sinks=sinks), schedule, base)
        self.first = first
        self._there = {sink.uid: self._rows_of_first(sink) for sink in first.definition.sinks}
        assert [Path(sink.place) for sink in sinks] == list(folders.values())

    def run(self) -> Story:
        story = super().run()
        self._check_first()
        # a FINISHED job has nothing to do: replaced rows do not return, and added rows stay
        self.first._attempt(RunPlan("finish"))
        self._check_first()
        for mine, _ in self._pairs():
            check_folder(Path(mine.place), self.first.definition.job_id)
        return story

    def _refused(self, error: InvalidInputError, fresh: bool) -> str:
        full = [mine.uid for mine, its in self._pairs() if mine.mode == "errorifexists" and self._files_of_first(its)]
        if not full or not (isinstance(error, TargetRefusedError) and "mode='append'" in str(error)):
            return super()._refused(error, fresh)
        assert fresh, f"refused in mid-life: {error}"
        self.story.refused = type(error).__name__
        self.story.note(f"refused: {error}")
        return "REFUSED"

    def _between(self) -> None:
        super()._between()
        self._check_first()

    def _pairs(self) -> list[tuple[SinkDef, SinkDef]]:
        return list(zip(self.definition.sinks, self.first.definition.sinks, strict=True))

    def _rows_of_first(self, sink: SinkDef) -> Counter[Values]:
        return Counter(released(self.first.world.base, sink))

    def _files_of_first(self, sink: SinkDef) -> bool:
        return any(True for _ in manifests(self.first.world.base, sink))

    def _check_first(self) -> None:
        for mine, its in self._pairs():
            has_released = bool(manifests(self.world.base, mine, self.definition.job_id))
            rows, shown = self._rows_of_first(its), self._there[its.uid]
            difference = f"{its.uid}: {rows.total()} of {shown.total()} rows of the first job, beside {mine}"
            if mine.mode == "overwrite" and has_released:
                assert not rows, f"{difference} that has released"
            else:
                assert rows == shown, difference
            if mine.mode == "errorifexists" and shown:
                assert not has_released, difference
