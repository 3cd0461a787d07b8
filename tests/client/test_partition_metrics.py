"""Result partitions that exist, with their rows and bytes (FLIP-383's ``getPartitionWithMetrics``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.jobmaster.retention.partition_metrics import PartitionWithMetrics
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

PARTS = JobVertex("parts", ("parts",), ("parts",), ("parts",), (), True, 2, splits=True)
GRAPH = JobGraph((PARTS, JobVertex("out", ("out",), (), (), ("sink",), True)), (JobEdge("e", "parts", "out", "out"),))
FIRST, SECOND = SubtaskId.of("parts", 0), SubtaskId.of("parts", 1)


class Place:
    """Job of two readers of splits, with a clock that only sleeping advances; ``then`` runs at each sleep."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.storage = open_root(open_storage(self.root))
        self.journal = Journal(self.storage, "orders")
        self.journal.claim("t", Worker(), 1.0)
        self.journal.write(ev.PlanRecorded(GRAPH, {}, 1.0, JobDefinition("batch", {}, {}, {})))
        self.logs = {
            subtask: SubtaskLog(self.storage, subtask_log_path("orders", subtask.vertex, subtask.number))
            for subtask in GRAPH.subtasks
        }
        for log in self.logs.values():
            log.load()
            log.open(AttemptId(1, 0, "a"))
        self.now = 0.0
        self.then: Callable[[], object] = lambda: None
        self.client = JobClient(str(self.root), "orders", clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.then()

    def publish(self, subtask: SubtaskId, split: str, sizes: tuple[int, ...], rows: int, *also: str) -> list[str]:
        files = tuple(PartitionFile(f"e/data/{split}/part-{number}", size) for number, size in enumerate(sizes))
        paths = [f"{partition_path('orders', subtask.vertex, subtask.number)}/{file.path}" for file in files]
        for path, size in zip(paths, sizes, strict=True):
            self.storage.create(path, b"x" * size)
        batch = self.logs[subtask].state.last_batch
        number = 0 if batch is None else batch.batch_id + 1
        self.logs[subtask].append_batch(Batch(number, {}, files=files, rows=rows, splits=(split, *also)))
        return paths

    def end(self, subtask: SubtaskId) -> None:
        self.logs[subtask].end_of_data("finish")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_only_subtasks_with_a_reader_have_a_partition(place: Place) -> None:
    place.publish(FIRST, "a", (3, 4), 10)
    place.publish(FIRST, "b", (), 0)
    place.publish(SECOND, "c", (5,), 7)
    place.publish(SubtaskId.of("out", 0), "none", (9,), 1)
    place.end(FIRST)
    assert place.client.get_partition_with_metrics() == (
        PartitionWithMetrics(FIRST, 10, 7, 2, 2, True),
        PartitionWithMetrics(SECOND, 7, 5, 1, 1, False),
    )


def test_all_splits_of_an_entry_are_counted(place: Place) -> None:
    """A reader reads small splits together."""
    place.publish(FIRST, "a", (3,), 10, "b", "c")
    place.publish(FIRST, "d", (4,), 1)
    (partition,) = place.client.get_partition_with_metrics()
    assert (partition.splits, partition.files) == (4, 2)


@pytest.mark.parametrize("how", ["gone", "emptied"])
def test_a_partition_with_a_missing_file_is_left_out(place: Place, how: str) -> None:
    path, _ = place.publish(FIRST, "a", (3, 4), 10)
    place.publish(SECOND, "c", (5,), 7)
    (place.root / path).unlink() if how == "gone" else (place.root / path).write_bytes(b"")
    assert [partition.subtask for partition in place.client.get_partition_with_metrics()] == [SECOND]


def test_a_finished_job_has_no_partitions(place: Place) -> None:
    place.publish(FIRST, "b", (), 0)
    place.end(FIRST)
    place.journal.write(ev.StatusChanged(JobStatus.FINISHED, 1.0))
    assert place.client.get_partition_with_metrics(["parts"], timeout=60.0) == ()
    assert place.now == 0.0  # no producer is left to wait for


def test_an_expected_partition_is_awaited_until_its_producer_ends(place: Place) -> None:
    place.publish(FIRST, "a", (3,), 10)
    place.then = lambda: place.end(FIRST)
    (partition,) = place.client.get_partition_with_metrics(["parts/0"], timeout=30.0)
    assert (partition.is_finished, place.now) == (True, 0.5)


def test_the_timeout_returns_the_partitions_that_exist(place: Place) -> None:
    place.publish(FIRST, "a", (3,), 10)
    place.end(FIRST)
    partitions = place.client.get_partition_with_metrics(["parts"], timeout=2.0)
    assert ([partition.subtask for partition in partitions], place.now) == ([FIRST], 2.0)
    assert len(place.client.get_partition_with_metrics(["parts/0"], timeout=2.0)) == 1
    assert place.now == 2.0


@pytest.mark.parametrize("name", ["out", "part", "parts/2"])
def test_expecting_a_partition_that_cannot_exist_is_refused(place: Place, name: str) -> None:
    with pytest.raises(InvalidInputError, match="It has: parts/0, parts/1"):
        place.client.get_partition_with_metrics([name], timeout=1e9)


def test_ckpt_show_lists_partitions_on_request(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.publish(FIRST, "a", (3, 4), 10)
    words = ["show", "orders", "--root", str(place.root)]
    assert main(words) == 0
    assert "PARTITION" not in capsys.readouterr().out
    assert main([*words, "--partitions"]) == 0
    assert "parts/0    runs      10    7      2      1" in capsys.readouterr().out
    assert main([*words, "--partitions", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["partitions"]
    assert shown == [{"subtask": "parts/0", "rows": 10, "bytes": 7, "files": 2, "splits": 1, "is_finished": False}]
