"""Secrets of connections and of the root's options, which do not get into a journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.journal.events import Event, StatusChanged, SubtaskRestarting
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.redaction import hiding_given
from airflow_provider_ckpt.storage.root import open_root

CAUSE = "\x1b[31mValueError\x1b[0m: cannot log in with PW-shop at https://me:PW-url@h/x"
SHOWN = "ValueError: cannot log in with *** at https://***@h/x"


@pytest.mark.parametrize(
    "event",
    [
        StatusChanged(JobStatus.FAILED, 1.0, CAUSE),
        SubtaskRestarting(SubtaskId("daily/0"), "a", CAUSE, 1, 3, 0.5, 1.0),
    ],
)
def test_the_cause_of_a_failure_is_journaled_without_secrets(event: Event, tmp_path: Path) -> None:
    root = open_root(open_storage(tmp_path))
    journal = Journal(root, "orders")
    with hiding_given(["PW-shop"]):
        journal.claim("try-1", Worker(), 1.0)
        journal.write(event)
        journal.flush()
    written = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert SHOWN in written
    assert "PW-" not in written
