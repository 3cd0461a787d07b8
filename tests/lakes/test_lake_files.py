"""Staged files of a lake get their final names, also if a process is killed midway or two work at once."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from airflow_provider_ckpt.sinks.errors import StagedFilesMissingError
from airflow_provider_ckpt.sinks.lake.lake_files import LakeFiles
from airflow_provider_ckpt.sinks.lake.lake_handle import LakeFile
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.opening import open_storage
from tests.support.syscalls import recorded, refusing

FILES = [LakeFile(f"staged/{number}", 4, 1, f"day={number % 2}/{number}") for number in range(4)]


@pytest.fixture
def files(tmp_path: Path) -> LakeFiles:
    for file in FILES:
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).write_bytes(b"rows")
    return LakeFiles(open_storage(tmp_path), SinkContext("job", "lake"))


def test_links_of_a_dead_process_are_synced_before_the_commit(files: LakeFiles, tmp_path: Path) -> None:
    """The dead process has created a folder and linked some files into it, but synced nothing."""
    (tmp_path / "day=1").mkdir()
    os.link(tmp_path / "staged/1", tmp_path / "day=1/1")
    with recorded(tmp_path) as calls:
        files.copy_to_targets(FILES)
    files.verify_targets(FILES, 1)
    last = {name: max(n for n, call in enumerate(calls) if call == f"fsync {name}") for name in ("day=1/1", "day=1")}
    made = [n for n, call in enumerate(calls) if call.startswith(("link", "mkdir"))]
    assert last["day=1"] > max(made)
    assert "fsync ." in calls
    assert calls.index("fsync day=1/1") < calls.index("fsync day=1")


def test_a_killed_copy_leaves_no_partial_file_under_the_final_name(
    files: LakeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed while it copies.

    A half copy under the final name would look like a file changed by a stranger.
    """

    def killed(origin: str, goal: str) -> None:
        Path(goal).write_bytes(b"ro")
        raise KeyboardInterrupt

    with refusing(tmp_path, errno.EPERM, "link"):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("shutil.copyfile", killed)
            files.copy_to_targets(FILES)
        files.verify_staged(FILES, 1)
        files.copy_to_targets(FILES)
    files.verify_targets(FILES, 1)


def test_files_committed_by_another_process_meanwhile_are_accepted(
    files: LakeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, looks = LakeFiles._size, list[str]()

    def size(self: LakeFiles, path: str) -> int | None:
        if len(looks) == len(FILES):  # this process has found none of the names
            files.copy_to_targets(FILES)
            for file in FILES:
                (tmp_path / file.path).unlink()
        looks.append(path)
        return real(self, path)

    other = LakeFiles(open_storage(tmp_path), SinkContext("job", "lake"))
    with monkeypatch.context() as patched:
        patched.setattr(other, "_size", size.__get__(other))
        other.verify_staged(FILES, 1)
    (tmp_path / FILES[0].target).unlink()
    with pytest.raises(StagedFilesMissingError):
        other.verify_staged(FILES, 1)
