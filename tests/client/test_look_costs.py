"""What looking at a job costs: an object store counts requests. docs/airflow.md shows the figures."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased, CheckpointTriggered
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.local import LocalStorage
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root

VERBS = ("read", "read_range", "list", "files", "exists", "size")
PAGE = (Path(__file__).parents[2] / "docs" / "airflow.md").read_text("utf-8")


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted: Counter[str] = Counter()

    def counting(verb: str, act: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            counted[verb] += 1
            return act(*args, **kwargs)

        return call

    for verb in VERBS:
        monkeypatch.setattr(LocalStorage, verb, counting(verb, getattr(LocalStorage, verb)))
    return counted


def test_an_hour_of_looks_costs_what_the_docs_say(tmp_path: Path, requests: Counter[str]) -> None:
    root = open_root(open_storage(tmp_path / "root"))
    journal = Journal(root, "orders")
    journal.claim("t1", Worker(), 1.0)
    client = JobClient(root, "orders")
    client.look()

    def hour(looks: int, checkpoints: int) -> int:
        """``checkpoints`` of them, spread evenly."""
        spent = 0
        for number in range(1, looks + 1):
            if number * checkpoints // looks > (number - 1) * checkpoints // looks:
                _checkpoint(journal, number)
            requests.clear()
            client.look()
            spent += requests.total()
        return spent

    shown = [int(one.replace(",", "")) for one in re.findall(r"^\| every \d+ s \|.*?\| ([\d,]+) \| \$", PAGE, re.M)]
    assert shown == [_rounded(hour(60, 0)), _rounded(hour(360, 0)), _rounded(hour(360, 120))]


def _rounded(requests: int) -> int:
    return round(requests, -1)


def _checkpoint(journal: Journal, number: int) -> None:
    journal.write(CheckpointTriggered(number, 1.0))
    journal.write(CheckpointCompleted(number, 1.0, 2.0, "checkpoint", {}, {}))
    journal.write(CheckpointReleased(number, 3.0))
