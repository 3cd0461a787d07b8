"""Files that change after they were read. No Spark runs here."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.model.file_status import ChangedFile, FileStatus
from airflow_provider_ckpt.task import read_files
from airflow_provider_ckpt.task.read_files import FIRST_COMPARISON, LAST_COMPARISON, MOST_COMPARED, YOUNG, ReadFiles

WALL = 1_000_000.0
NOW = int(WALL * 1000)
OLD = NOW - int(YOUNG * 1000)


def read(*files: FileStatus) -> ReadFiles:
    already_read = ReadFiles()
    already_read.add("live", files, 0.0, WALL)
    return already_read


def of(name: str, size: int, modified: int = NOW) -> FileStatus:
    return FileStatus(f"file:/in/{name}", size, modified)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (of("a", 30, NOW + 1), "/in/a grew after it was read: 20 bytes were not read"),
        (of("a", 4, NOW + 1), "/in/a was replaced after it was read: 10 bytes then, 4 bytes now"),
        (of("a", 10, NOW + 1), "/in/a was written again after it was read, with the same size"),
    ],
)
def test_a_file_that_changed_is_reported_once_for_each_change(now: FileStatus, expected: str) -> None:
    files = read(of("a", 10), of("b", 10))
    assert files.changed("live", [of("a", 10), of("b", 10), of("never read", 1)]) == []
    assert [str(change) for change in files.changed("live", [now, of("b", 10)])] == [expected]
    assert files.changed("live", [now]) == []
    (again,) = files.changed("live", [of("a", 100, NOW + 2)])
    assert again.unread == 100 - now.size


def test_a_deleted_file_or_one_of_another_source_is_no_change() -> None:
    files = read(of("a", 10))
    assert files.changed("live", []) == []
    assert files.changed("history", [of("a", 30)]) == []


def test_a_file_read_by_an_earlier_driver_is_compared_by_time() -> None:
    files = read(of("b", 10))
    planned = {"in/a": NOW, "in/b": NOW - 5, "in/c": NOW}
    statuses = [of("a", 30, NOW + 1), of("b", 10), of("c", 10)]
    assert files.changed("live", statuses, planned) == [ChangedFile("/in/a", None, 30)]
    assert files.changed("live", statuses, planned) == []


def test_only_young_files_are_compared_while_the_query_runs() -> None:
    files = read(of("young", 1), of("old", 1, OLD))
    assert not files.is_due(FIRST_COMPARISON - 0.1)
    assert files.settles_at(["live"]) == FIRST_COMPARISON
    assert files.settles_at(["history"]) == 0.0
    assert files.due(FIRST_COMPARISON) == {"live": ["file:/in/young"]}
    assert files.settles_at(["live"]) == 0.0
    assert files.changed("live", [of("old", 2, OLD)]), "at the end all are"


def test_the_pauses_between_comparisons_grow_and_end() -> None:
    files = read(of("a", 1))
    looks = [now for now in range(1000) if files.due(float(now))]
    assert looks[0] == FIRST_COMPARISON
    assert looks == [3, 9, 21, 45, 93]
    assert 48 <= LAST_COMPARISON < 96


def test_a_folder_of_many_young_files_is_compared_in_portions() -> None:
    files = read(*(of(f"{number}", 1) for number in range(2 * MOST_COMPARED + 1)))
    portions = [len(files.due(FIRST_COMPARISON).get("live", [])) for _ in range(4)]
    assert portions == [MOST_COMPARED, MOST_COMPARED, 1, 0]


def test_too_many_young_files_are_compared_at_the_end_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "MOST_WATCHED", 2)
    files = read(*(of(f"{number}", 1) for number in range(3)))
    assert files.is_due(FIRST_COMPARISON)
    assert files.due(FIRST_COMPARISON) == {"live": ["file:/in/0", "file:/in/1"]}
    assert not files.is_due(FIRST_COMPARISON)
    assert files.is_due(3 * FIRST_COMPARISON)
    assert [change.path for change in files.changed("live", [of("2", 2)])] == ["/in/2"]


def test_sizes_of_the_latest_files_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "KEPT", 2)
    files = read(of("a", 1), of("b", 1), of("c", 1))
    assert [change.path for change in files.changed("live", [of("a", 2), of("b", 2), of("c", 2)])] == ["/in/b", "/in/c"]


def test_a_file_read_again_counts_with_its_last_size() -> None:
    files = read(of("a", 10))
    files.add("live", [of("a", 30)], 1.0, WALL)
    assert files.changed("live", [of("a", 30)]) == []
