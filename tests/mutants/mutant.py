"""One deliberate defect, and the tests that have to notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_ckpt"
_NO_SPARK = (
    "tests/client/",
    "tests/storage/",
    "tests/partitions/",
    "tests/job/",
    "tests/journal/",
    "tests/launch/",
    "tests/lakes/test_delta_sink.py",
    "tests/lakes/test_golden_v1.py",
    "tests/lakes/test_iceberg_sink.py",
    "tests/coordinator/",
    "tests/remote/",
    "tests/simulation/",
    "tests/sinks/postgres/test_crashes.py",
    "tests/sinks/postgres/test_rules.py",
    "tests/sinks/sql/test_crashes.py",
    "tests/sinks/sql/test_inserting.py",
    "tests/sinks/sql/test_modes.py",
    "tests/sinks/sql/test_refusals.py",
    "tests/sinks/test_manifests.py",
    "tests/sinks/test_modes.py",
    "tests/sinks/test_releases.py",
    "tests/spark/test_batch_order.py",
    "tests/spark/test_collector.py",
    "tests/spark/test_fences.py",
    "tests/spark/test_folder_purge.py",
    "tests/spark/test_folder_races.py",
    "tests/spark/test_going_back.py",
    "tests/spark/test_inputs.py",
    "tests/spark/test_past_files.py",
    "tests/spark/test_query_end.py",
    "tests/spark/test_releaser.py",
    "tests/spark/test_retention.py",
    "tests/spark/test_running_query.py",
    "tests/spark/test_synced_output.py",
    "tests/spark/test_worker.py",
    "tests/spark/test_worker_ends.py",
    "tests/task/test_rescaling.py",
    "tests/task/test_split_reading.py",
    "tests/task/test_split_runs.py",
)


class StaleMutantError(Exception):
    """The source has changed, and the list was not changed with it."""


@dataclass(frozen=True)
class Mutant:
    """``file`` is relative to the package. ``old``: exact source text that occurs in it once; ``new`` takes its place.

    ``tests``: pytest paths or ids of which at least one must fail. ``rule``: of docs/protocol.md ("R4"); "-": none.
    ``why``: what goes wrong in a job with this defect. ``hangs``: the defect shows by nothing going on, so that a test
    that runs out of time has noticed it.
    """

    id: str
    rule: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str
    hangs: bool = False

    @property
    def is_fast(self) -> bool:
        """No test of it starts Spark."""
        return all(test.startswith(_NO_SPARK) for test in self.tests)

    def path(self, root: Path = ROOT) -> Path:
        return root / PACKAGE / self.file

    def line(self, root: Path = ROOT) -> int:
        """Where the text begins; 0 if it is not there."""
        before, found, _ = self.path(root).read_text().partition(self.old)
        return before.count("\n") + 1 if found else 0

    def mutated(self, root: Path = ROOT) -> str:
        """The whole file with the defect. Raises StaleMutantError unless the old text occurs exactly once."""
        path = self.path(root)
        if not path.is_file():
            raise StaleMutantError(f"{self.id}: there is no file {PACKAGE}/{self.file} any more")
        source = path.read_text()
        times = source.count(self.old)
        if times != 1:
            raise StaleMutantError(f"{self.id}: {times} times in {PACKAGE}/{self.file}, not once: {self.old!r}")
        return source.replace(self.old, self.new)
