"""Errors about long folder names on file systems and object stores.

The errors are simulated with their original messages, because no such system is available here. The error of a local
disk is tested in test_file_sink.py.
"""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.sinks.errors import RowsRefusedError
from airflow_provider_ckpt.sinks.folder_names import named_folders
from airflow_provider_ckpt.sinks.sink import SinkContext

LONG = "x" * 300


def written(message: str) -> None:
    with named_folders(["city"], SinkContext("orders", "lake"), "a1-2-n"):
        raise RuntimeError(message)


@pytest.mark.parametrize(
    "message",
    [
        f"FSLimitException$PathComponentTooLongException: The maximum path component name limit of city={LONG} in "
        "directory /lake/a1-2-n/_temporary/0 is exceeded: limit=255 length=305",
        f"java.io.FileNotFoundException: /lake/a1-2-n/city={LONG}/part-0.parquet (File name too long)",
    ],
)
def test_the_error_for_a_too_long_folder_name_names_the_column(message: str) -> None:
    with pytest.raises(RowsRefusedError, match=r"'city'.*has 305 bytes"):
        written(message)


@pytest.mark.parametrize(
    "message",
    [
        f"PUT 0-byte object on ckpt/a1-2-n/city={LONG}/part-0: S3Exception: Please reduce your request rate (503)",
        f"s3a://lake/a1-2-n/city={LONG}/part-0: Read timed out, over the limit of 60 s",
        f"Mkdirs failed to create file:/other/city={LONG} (exists=false)",
    ],
)
def test_another_error_with_a_long_name_is_raised_unchanged(message: str) -> None:
    """Object stores accept such names."""
    with pytest.raises(RuntimeError):
        written(message)
