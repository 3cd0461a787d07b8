"""The format of a feed's entries on disk, and truncated entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles import feed_entry
from airflow_provider_ckpt.sparkfiles.edge_feed import EdgeFeed
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile

GOLDEN = Path(__file__).parent.parent / "golden"
FOLDER = "file:///lake/ckpt/orders/vertices/a/0/partition/a__b/feeds/0001"
LINES = [
    feed_entry.line(f"file:///lake/ckpt/orders/vertices/a/0/partition/a__b/data/0001-n/part-{n}.parquet", 700 + n, n)
    for n in range(2)
]


@pytest.mark.parametrize(("name", "lines"), [("0", []), ("9.compact", LINES)], ids=["empty", "compact"])
def test_golden_copies_are_written_and_read(name: str, lines: list[str]) -> None:
    counted = (GOLDEN / "feed-entry-v1" / name).read_bytes()
    assert feed_entry.encode(lines, FOLDER) == counted
    assert feed_entry.decode(counted) == lines


@pytest.mark.parametrize("files", [0, 1, 3])
def test_a_truncated_entry_is_refused_by_name(files: int, tmp_path: Path) -> None:
    """A cut after the version or at a line's end is refused too. Spark takes such a file for complete."""
    storage = open_storage(tmp_path)
    feed = EdgeFeed(storage, "p/e", "p", attempt=AttemptId(1, 0, "x"))
    feed.add("p", 0, Batch(0, {}, files=tuple(PartitionFile(f"part-{n}", 1) for n in range(files))))
    entry = "p/e/feeds/0001/_spark_metadata/1"
    whole = storage.read(entry)
    assert whole.count(b"\n") == 1 + files
    for length in range(len(whole)):
        storage.replace(entry, whole[:length])
        with pytest.raises(SparkFolderLostError, match="_spark_metadata/1 is not what was written"):
            EdgeFeed(storage, "p/e", "p", attempt=AttemptId(2, 0, "x"))
    storage.replace(entry, whole)
    assert len(EdgeFeed(storage, "p/e", "p", attempt=AttemptId(2, 0, "x"))._lines) == files


def test_an_entry_without_a_count_is_refused() -> None:
    """Spark's own format has no count, so a cut would not be noticed."""
    with pytest.raises(ValueError, match="begins with 'v1'"):
        feed_entry.decode("\n".join(["v1", *LINES]).encode())


@pytest.mark.parametrize("damage", [b"[]", b'{"size": "1"}', b'{"path": "x"}', b"\n{}"])
def test_an_invalid_count_is_refused(damage: bytes) -> None:
    with pytest.raises((ValueError, KeyError)):
        feed_entry.decode(b"v01\n" + damage)
