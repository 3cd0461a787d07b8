"""Spark folders of a job that lose files, and the refusal of the job."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from tests.spark.harness import World


def newest_file(folder: Path) -> Path:
    return max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def spark_folder(world: World, vertex: str) -> Path:
    """Return the folder of the last attempt. A run that reached RUNNING leaves only this one."""
    folders = [path for path in (world.root / f"job/vertices/{vertex}/0/spark").iterdir() if path.is_dir()]
    assert len(folders) == 1, folders
    return folders[0]


@contextmanager
def damaged(world: World, paths: list[Path], content: Callable[[bytes], bytes] | None = None) -> Iterator[None]:
    """Remove the paths, or change their content; restore them at the end."""
    kept = world.base / "kept"
    kept.mkdir()
    for number, path in enumerate(paths):
        path.rename(kept / str(number))
        if content is not None:
            path.write_bytes(content((kept / str(number)).read_bytes()))
    yield
    for number, path in enumerate(paths):
        assert content is not None or not path.exists()
        path.unlink(missing_ok=True)
        (kept / str(number)).rename(path)
    shutil.rmtree(kept)


def refuse_twice(world: World, job: Job, names: str) -> str:
    """Check that two drivers in a row refuse the job with the same message, and release nothing. Return the message."""
    before = world.released(), world.checkpoints_released()
    message = ""
    for _ in range(2):
        with pytest.raises(SparkFolderLostError) as error:
            world.run(job, resume_failed=True)
        message = str(error.value)
        assert names in message
        assert "put it back" in message
        state = world.state()
        assert (state.status, state.cause) == ("FAILED", message)
        assert (world.released(), world.checkpoints_released()) == before
    return message
