"""Texts of Hadoop's file statuses, as the file systems write them."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.spark.query.sources.file_index import read_status

PATH = "s3a://bucket/live/a; b{path=c}.parquet"
FILE = (
    f"path={PATH}; isDirectory=false; length=895; replication=1; blocksize=33554432; modification_time=1796011166000; "
    "access_time=0; owner=root; group=root; permission=rw-rw-rw-; isSymlink=false; hasAcl=false; isEncrypted=true; "
    "isErasureCoded=false}"
)
TEXTS = {
    "hadoop": "LocatedFileStatus{" + FILE,
    "s3a": "S3ALocatedFileStatus{S3ALocatedFileStatus{" + FILE + "[eTag='\"0872e1cb\"', versionId=''}",
    "abfs": "VersionedFileStatus{VersionedFileStatus{" + FILE + "; version='0x8D'}",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_file_statuses_of_all_file_systems_are_read(text: str) -> None:
    assert read_status(text) == FileStatus(PATH, 895, 1_796_011_166_000)


@pytest.mark.parametrize("text", ["", "Status(path=x)", FILE, TEXTS["hadoop"].replace("isDirectory=false; ", "")])
def test_a_malformed_file_status_is_named(text: str) -> None:
    with pytest.raises(TerminalError, match="the file system describes a file as") as refused:
        read_status(text)
    assert repr(text) in str(refused.value)
