"""The journal and the logs of an aging job without Spark.

Checkpoints follow each other as fast as possible, and drivers take the job over at intervals.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.opening import open_storage
from tests.soak.aging_job import AgingJob

RUNS = 8
MOST = 300 + 60
"""Most files of two vertices with three retained checkpoints."""


@pytest.mark.timeout(0)
@pytest.mark.parametrize("checkpoints", [400, pytest.param(10_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "each",
    [
        pytest.param(0, id="idle"),
        pytest.param(1, id="busy", marks=pytest.mark.slow),
        pytest.param(7, id="now and then", marks=pytest.mark.slow),
    ],
)
def test_the_size_of_the_root_depends_on_retention_only(tmp_path: Path, checkpoints: int, each: int) -> None:
    """Check the files and memory of old and young roots.

    ``each``: checkpoints between two batches; 0: a single batch.
    """
    storage = open_storage(f"memory://{tmp_path}")
    job = AgingJob(storage, each)
    for _ in range(RUNS):
        job.run(checkpoints // RUNS)
    young, old = job.ages[: len(job.ages) // 2], job.ages[len(job.ages) // 2 :]
    assert max(age.files for age in job.ages) <= MOST
    claims = 3 * RUNS  # the entries that claimed the journal and the logs stay forever (R3)
    assert max(age.files for age in old) <= max(age.files for age in young) + claims
    assert max(age.size for age in old) <= 1.5 * max(age.size for age in young)
    assert max(age.in_memory for age in old) <= max(age.in_memory for age in young) + claims
    reader = Journal(storage, "job").replay()
    assert reader == job.journal.state
    assert reader.last_completed == checkpoints
