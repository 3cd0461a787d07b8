"""Random jobs whose definition changes between two runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import InvalidInputError
from tests.random_jobs.between import Values
from tests.random_jobs.definition import Definition, SinkDef
from tests.random_jobs.expected import Expected, manifests, released
from tests.random_jobs.in_process import InProcess, Story
from tests.random_jobs.invariants import check_any_time
from tests.random_jobs.schedule import RunPlan, Schedule

Tree = dict[str, tuple[int, int]]


class ChangedJob(InProcess):
    """A random job whose definition changes. ``first``: the run before the change.

    Raises AssertionError unless the job continues with the right rows, or is refused before anything is written. A
    refused job must continue once it is changed back.
    """

    def __init__(self, spark: SparkSession, before: Definition, after: Definition, first: RunPlan, base: Path) -> None:
        super().__init__(spark, before, Schedule((), 0.6, False), base)
        self.before, self.after, self.first = before, after, first
        self._changed = False

    def run(self) -> Story:
        if self._attempt(self.first) in ("FINISHED", "REFUSED") or not self.world.root.exists():
            return self.story  # nothing to continue
        self._between()
        tree = self._tree()
        self.definition, self._changed = self.after, True
        self.data.use(self.after)
        status = self._attempt(RunPlan("finish", drains=True))
        if status == "REFUSED":
            assert self._tree() == tree, f"refused, and written: {sorted(self._tree().items() ^ tree.items())[:5]}"
            self.definition, self._changed = self.before, False
            self.data.use(self.before)
            status = self._attempt(RunPlan("finish", drains=True))
            self.story.note("refused, changed back")
        assert status == "FINISHED", status
        self._check_rows()
        return self.story

    def _refused(self, error: InvalidInputError, fresh: bool) -> str:
        if not self._changed:
            return super()._refused(error, fresh)
        self.story.refused = type(error).__name__
        self.story.note(f"refused: {type(error).__name__}: {error}")
        return "REFUSED"

    def _check_rows(self) -> None:
        check_any_time(self.definition, self.world)
        expected = Expected(self.spark, self.definition, self.world.base)
        before = {sink.uid: sink for sink in self.before.sinks}
        for sink in self.definition.sinks:
            rows = released(self.world.base, sink)
            was = before.get(sink.uid)
            if was is None:
                self._check_added(expected, sink, rows)
                continue
            if was.place != sink.place:
                rows = released(self.world.base, was) + rows
            expected.check(sink, rows, late_rows=self.world.late_rows())
            self._check_layout(sink)

    def _check_added(self, expected: Expected, sink: SinkDef, rows: list[Values]) -> None:
        """Check an added sink: it gets only rows from now on, none of them twice."""
        if sink.lineage != "last":
            extra = Counter(rows) - expected.rows(sink)
            assert not extra, f"{sink.uid}: {sum(extra.values())} rows too many, such as {sorted(extra)[:5]}"

    def _check_layout(self, sink: SinkDef) -> None:
        """Check that a reader that lists the folder finds files of one kind."""
        files = [file.path for manifest in manifests(self.world.base, sink) for file in manifest.files]
        kinds = {(Path(file).suffix, file.count("/")) for file in files}
        assert len(kinds) <= 1, f"{sink.uid}: files of several layouts in one folder: {kinds}"

    def _tree(self) -> Tree:
        """Return size and time of every file that the job has written."""
        folders = [self.world.root, *(self.world.base / s.place for s in (*self.before.sinks, *self.after.sinks))]
        paths = [path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}
