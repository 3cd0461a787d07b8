"""What is deleted of attempts that are over (R5), and when it is not. No Spark runs here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.jobmaster.collector import collect_garbage
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.model.graph import Edge, ExecutionGraph, Vertex
from airflow_provider_ckpt.partitions.errors import LogFencedError
from airflow_provider_ckpt.partitions.records import Batch, PartitionFile
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.sparkfiles.feed import data_folder
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage

GRAPH = ExecutionGraph(
    (
        Vertex("a", ("a",), ("a",), ("a",), (), bounded=True),
        Vertex("v", ("v",), (), (), ("out",), bounded=True),
    ),
    (Edge("a__v", "a", "v", "v"),),
)
DATA = data_folder(partition_path("job", "a", 0), ["a__v"])
PUBLISHED, LEFT, MINE = "0001-before-0-n", "0001-before-1-n", "0002-mine-0-n"


class House:
    """A job whose first attempt has published a batch and left another one, and whose second one has begun."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.asked: list[tuple[set[str], Collection[str]]] = []
        self.logs = {f"{uid}/0": self.opened(uid, 1, "0001-before") for uid in ("a", "v")}
        inside = DATA[len(partition_path("job", "a", 0)) + 1 :]
        self.logs["a/0"].publish(Batch(0, {}, files=(PartitionFile(f"{inside}/{PUBLISHED}/part", 1),)))
        self.logs["v/0"].publish(Batch(0, {}, handles={"out": {"id": "h0", "rows": 1}}))
        self.logs = {f"{uid}/0": self.opened(uid, 2, "0002-mine") for uid in ("a", "v")}
        for name in (PUBLISHED, LEFT, MINE):
            storage.create(f"{DATA}/{name}/part", b"x")

    def opened(self, uid: str, epoch: int, attempt: str) -> SubtaskLog:
        log = SubtaskLog(self.storage, subtask_log_path("job", uid, 0))
        log.load()
        log.open(attempt, epoch, attempt)
        return log

    def collect(self, check_fenced: Callable[[], None] = lambda: None) -> list[str]:
        """What is left of the partition's data."""

        def ask(live_handles: set[str], live_attempts: Collection[str]) -> list[str]:
            self.asked.append((live_handles, live_attempts))
            return []

        sink: Any = SimpleNamespace(collect_garbage=ask)
        collect_garbage(self.storage, "job", GRAPH, self.logs, {"out": sink}, "0002-mine", check_fenced)
        return self.storage.list(DATA)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(open_storage(f"memory://{tmp_path}"))


def test_r5_what_a_live_entry_names_and_what_this_attempt_writes_stays(house: House) -> None:
    assert house.collect() == [PUBLISHED, MINE]


def test_r5_sinks_are_told_which_handles_are_live_and_which_attempts(house: House) -> None:
    house.collect()
    [(handles, attempts)] = house.asked
    assert handles == {"h0"}
    assert ["0001-before" in attempts, "0002-mine" in attempts, "0003-next" in attempts] == [False, True, True]


def test_r4_what_was_staged_behind_a_rewind_is_not_live(house: House) -> None:
    """Nobody tells the sink to throw it away: the batch is void, and its attempt is fenced."""
    house.logs["v/0"].open("0003-back", 3, "0003-back", continues_at=0)
    house.collect()
    [(handles, attempts)] = house.asked
    assert (handles, "0001-before" in attempts) == (set(), False)


def test_r8_a_driver_whose_job_was_claimed_collects_nothing(house: House) -> None:
    def fenced() -> None:
        raise FencedError(job_id="job", epoch=3, attempt="t3", worker="there", own_epoch=2)

    with pytest.raises(FencedError):
        house.collect(fenced)
    assert (house.storage.list(DATA), house.asked) == ([PUBLISHED, LEFT, MINE], [])


def test_r8_a_driver_whose_log_was_opened_collects_nothing(house: House) -> None:
    house.opened("a", 3, "0003-next")
    with pytest.raises(LogFencedError):
        house.collect()
    assert (house.storage.list(DATA), house.asked) == ([PUBLISHED, LEFT, MINE], [])
