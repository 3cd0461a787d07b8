"""Row counts of Parquet files, read off their footers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_provider_ckpt.sinks.errors import StagedFileUnusableError
from airflow_provider_ckpt.sinks.parquet_footers import parquet_rows
from airflow_provider_ckpt.storage.opening import open_storage


def sizes(folder: Path) -> list[tuple[str, int]]:
    return [(path.name, path.stat().st_size) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("counts", [(), (0,), (3,), (3, 0, 5)])
def test_the_row_counts_of_all_files_are_added(tmp_path: Path, counts: tuple[int, ...]) -> None:
    for number, count in enumerate(counts):
        parquet.write_table(pa.table({"id": pa.array(range(count), pa.int64())}), tmp_path / f"{number}.parquet")
    assert parquet_rows(open_storage(str(tmp_path)), sizes(tmp_path)) == sum(counts)


def test_a_footer_longer_than_the_first_read_is_read_completely(tmp_path: Path) -> None:
    wide = pa.table({f"column_with_a_long_name_{number}": [1, 2] for number in range(500)})
    parquet.write_table(wide, tmp_path / "wide.parquet")
    footer = (tmp_path / "wide.parquet").read_bytes()[-8:-4]
    assert int.from_bytes(footer, "little") > 16 * 1024
    assert parquet_rows(open_storage(str(tmp_path)), sizes(tmp_path)) == 2


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1" + b"\xff" * 8 + b"PAR1", b"x" * 50 + b"\x08\0\0\0PAR1", b"xPARE"]
)
def test_a_file_without_a_readable_footer_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.parquet").write_bytes(content)
    with pytest.raises(StagedFileUnusableError, match=r"broken\.parquet"):
        parquet_rows(open_storage(str(tmp_path)), sizes(tmp_path))
