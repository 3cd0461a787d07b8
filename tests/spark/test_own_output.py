"""Locations of a job's output in messages for users."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.sinks.binding import output_folders
from airflow_provider_ckpt.storage.location import Location


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, {"lake": "s3://bucket/lake"}),
        ({"key": "AK", "secret": "hush"}, {"lake": "s3://bucket/lake"}),
        ({"endpoint_url": "http://minio:9000"}, {}),
        ({"client_kwargs": {"endpoint_url": "http://minio:9000"}}, {}),
    ],
)
def test_a_folder_in_a_private_store_is_not_shown_as_a_cloud_folder(
    options: dict[str, object], shown: dict[str, str]
) -> None:
    job = Job("orders")

    @job.source(bounded=True)
    def orders(read):  # type: ignore[no-untyped-def]
        return read.parquet("in")

    job.sink("lake", orders, FileSink("s3://bucket/lake"))
    assert output_folders(job, Location("s3://bucket/root", options)) == shown
