"""The journal and the logs of a job that grows old, without Spark: checkpoints as fast as they go, and a driver that
takes the job over now and then."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.opening import open_storage
from tests.soak.aging_job import AgingJob

RUNS = 8
MOST = 300 + 60
"""Files of two vertices with three retained checkpoints."""


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
def test_what_lies_there_depends_on_what_is_retained(tmp_path: Path, checkpoints: int, each: int) -> None:
    """``each``: checkpoints from one batch to the next; 0: there is one, and no more."""
    storage = open_storage(f"memory://{tmp_path}")
    job = AgingJob(storage, each)
    for _ in range(RUNS):
        job.run(checkpoints // RUNS)
    young, old = job.ages[: len(job.ages) // 2], job.ages[len(job.ages) // 2 :]
    assert max(age.files for age in job.ages) <= MOST
    claims = 3 * RUNS  # what took the journal and the logs over stays for ever (R3)
    assert max(age.files for age in old) <= max(age.files for age in young) + claims
    assert max(age.size for age in old) <= 1.5 * max(age.size for age in young)
    assert max(age.in_memory for age in old) <= max(age.in_memory for age in young) + claims
    reader = Journal(storage, "job").replay()
    assert reader == job.journal.state
    assert reader.last_completed == checkpoints
