"""A worker of one deployment: it refuses another deployment before it starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt import Job
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.journal.events import DeploymentPrepared
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.remote.errors import DeploymentOverError
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun, RunRequest
from airflow_provider_ckpt.spark.worker_run import WorkerRun
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root


def test_w20_a_worker_runs_nothing_of_a_later_deployment(tmp_path: Path) -> None:
    """The worker's task in Airflow was late, and the job was prepared again in the meantime."""
    storage = open_root(open_storage(tmp_path))
    journal = Journal(storage, "orders")
    for nonce in ("first", "second"):
        epoch = takeover.claim(journal, nonce, Place("x")).epoch
        OwnedJournal(journal).write(DeploymentPrepared(epoch, 1.0))
    late = WorkerRun(("history/0",), Timing.of(str(tmp_path)), deployment=1)
    options = RunOptions(job="orders.py:job", root=str(tmp_path), job_id="orders")
    request = RunRequest(options, Location(str(tmp_path)), lambda line: None)
    with pytest.raises(DeploymentOverError, match="epoch 2 has the job"):
        late(LoadedRun(request, Job("orders"), storage, journal))
