"""Jobs whose folders another job overwrites before they have finished."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.sinks.errors import OutputSupersededError, ReleaseRefusedError, TargetRefusedError
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.sinks.file_names import is_data_file
from tests.random_jobs.between import Values
from tests.random_jobs.definition import Definition, SinkDef
from tests.random_jobs.expected import Expected, manifests, released
from tests.random_jobs.in_process import InProcess, Story
from tests.random_jobs.schedule import RunPlan, Schedule

UNDISTURBED = Schedule((RunPlan("finish", drains=True),), feeding=0.6, deletes=False)
WAYS_OUT = (OutputSupersededError, ReleaseRefusedError, TargetRefusedError)


class Overtaken(InProcess):
    """A job that another one overtakes. ``first``: its run before the other job.

    Raises AssertionError unless three things hold. Replaced rows stay replaced, the job names the other one, and each
    folder ends with the rows of whole jobs.
    """

    def __init__(self, spark: SparkSession, definition: Definition, first: RunPlan, base: Path) -> None:
        super().__init__(spark, definition, Schedule((first,), 0.6, deletes=False), base)
        self.first = first

    def run(self) -> Story:
        if self._attempt(self.first) in ("FINISHED", "REFUSED") or not self.world.root.exists():
            return self.story  # there is nothing to overtake
        self._between()
        other = self._other()
        other.run()
        replaced = [sink for sink in self.definition.sinks if self._is_replaced(sink, other)]
        self.story.note(f"replaced: {[sink.uid for sink in replaced]}")
        self._go_on(replaced)
        for sink in self.definition.sinks:
            self._check_folder(sink, other)
        return self.story

    def _other(self) -> InProcess:
        sinks = tuple(
            replace(sink, folder=str(self.world.base / sink.place), mode="overwrite") for sink in self.definition.sinks
        )
        definition = replace(self.definition, seed=self.definition.seed + 1_000_000, job_id="other", sinks=sinks)
        return InProcess(self.spark, definition, UNDISTURBED, self.world.base / "other")

    def _is_replaced(self, sink: SinkDef, other: InProcess) -> bool:
        """Return whether the other job has replaced the sink's rows.

        Its first release records that, even for no rows.
        """
        releases = manifests(other.world.base, self._of_other(sink, other), "other")
        return any(
            name.job_id == "job" and name.sink == sink.uid for manifest in releases for name in manifest.supersedes
        )

    @staticmethod
    def _of_other(sink: SinkDef, other: InProcess) -> SinkDef:
        return next(candidate for candidate in other.definition.sinks if candidate.uid == sink.uid)

    def _go_on(self, replaced: list[SinkDef]) -> None:
        """Continue the overtaken job. It notices at its start, or at a release, and then its run ends FAILED."""
        message = "'other'"
        try:
            status = self._attempt(RunPlan("finish", drains=True))
        except WAYS_OUT as error:
            status, message = type(error).__name__, str(error)
            self.story.note(f"{status}: {error}")
        assert "'other'" in message, message
        assert not replaced or status != "FINISHED", f"{replaced} were replaced, and the job went on"

    def _refused(self, error: InvalidInputError, fresh: bool) -> str:
        if isinstance(error, TargetRefusedError) and "mode='append'" in str(error):
            raise error
        return super()._refused(error, fresh)

    def _check_status(self, plan: RunPlan, status: str, cause: str | None, *rest: object) -> None:
        if plan is self.first or status == "FINISHED":
            super()._check_status(plan, status, cause, *rest)  # type: ignore[arg-type]
        else:
            assert status == "FAILED", f"ended {status} ({cause})"
            assert "'other'" in str(cause), cause

    def _check_rows_of(self, job: InProcess, sink: SinkDef, rows: list[Values]) -> None:
        expected = Expected(self.spark, job.definition, job.world.base)
        expected.check(sink, rows, late_rows=job.world.late_rows())

    def _check_folder(self, sink: SinkDef, other: InProcess) -> None:
        """Check the rows of both jobs: complete for a FINISHED job, and only files that manifests name."""
        finished = self.world.state().status == "FINISHED"
        mine = released(self.world.base, sink)
        if self._is_replaced(sink, other):
            assert not mine, f"{sink.uid}: {len(mine)} rows were replaced and came back"
        elif finished:
            self._check_rows_of(self, sink, mine)
        theirs = self._of_other(sink, other)
        its = released(other.world.base, theirs, "other")
        if its or not (finished and sink.mode == "overwrite"):
            self._check_rows_of(other, theirs, its)
        folder = self.world.base / sink.place
        named = Counter(file.path for manifest in read_manifests(str(folder)) for file in manifest.files)
        paths = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        assert Counter(filter(is_data_file, paths)) == named, f"{sink.uid}: files and manifests differ"
