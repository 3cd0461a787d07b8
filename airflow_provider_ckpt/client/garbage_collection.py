"""Garbage under a root: everything that no job needs, listed and on request deleted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.client.errors import NoSuchJobError
from airflow_provider_ckpt.client.sinks_of_job import sinks_of_job
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.jobmaster.retention.collector import SinksOf
from airflow_provider_ckpt.jobmaster.retention.garbage import Garbage, JobGarbage, Reason, StrangeFolder
from airflow_provider_ckpt.jobmaster.retention.garbage_removal import GarbageRemoval
from airflow_provider_ckpt.jobmaster.retention.garbage_search import find_garbage
from airflow_provider_ckpt.journal.journal import job_ids
from airflow_provider_ckpt.storage.layout import JOURNAL, PARTS, check_job_id, is_job_id
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.refusal import described
from airflow_provider_ckpt.storage.root import ROOT_MARKER, read_root
from airflow_provider_ckpt.storage.storage import Storage

FORMAT, VERSION = "airflow-provider-ckpt/garbage", 1


@dataclass(frozen=True)
class GarbageReport:
    """The garbage that was found under a root, or deleted there."""

    root: str
    deleted: bool
    """True if deletion was requested; otherwise nothing was deleted."""
    jobs: tuple[JobGarbage, ...]
    """All examined jobs, ordered by id, including jobs without garbage."""
    temporary: tuple[Garbage, ...] = ()
    """Temporary files directly in the root, which belong to no job."""
    strange: tuple[StrangeFolder, ...] = ()
    """Folders in the root that are no jobs, for example because they have no journal. They are never deleted."""

    @property
    def files(self) -> int:
        return sum(job.files for job in self.jobs) + sum(garbage.files for garbage in self.temporary)

    @property
    def bytes(self) -> int:
        return sum(job.bytes for job in self.jobs) + sum(garbage.bytes for garbage in self.temporary)

    @property
    def problems(self) -> dict[str, str]:
        """Job id → the error that occurred while its garbage was read, listed or deleted."""
        return {job.job_id: job.problem for job in self.jobs if job.problem is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``ckpt gc --json`` (docs/cli.md)."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "root": self.root,
            "deleted": self.deleted,
            "files": self.files,
            "bytes": self.bytes,
            "jobs": [_job_json(job) for job in self.jobs],
            "temporary": [_garbage_json(garbage) for garbage in self.temporary],
            "strange": [{"name": folder.name, "what": folder.what} for folder in self.strange],
        }


def collect_garbage(
    root: Location | str | os.PathLike[str] | Storage, job_id: str | None = None, *, delete: bool = False
) -> GarbageReport:
    """Find the garbage of all jobs under a root, or of one job. Delete it if ``delete`` is True.

    Needs no Spark and claims no job. A job that a driver runs, or may run, is skipped. An unreadable object becomes the
    ``problem`` of its job, and nothing of that job is deleted. Staged output is found for file sinks that the root's
    options can reach. The report names the other sinks, whose staged output stays.

    Raises NoRootError, ForeignRootError, NoSuchJobError, InvalidJobIdError, BadOptionError (``delete`` is not a bool),
    and the storage's errors before the first job.
    """
    kinds.FLAG.read(delete, "delete")
    storage = read_root(root if isinstance(root, Storage) else open_storage(root))
    location = Location(root.uri) if isinstance(root, Storage) else Location.of(root)
    ids = job_ids(storage)
    if job_id is not None and check_job_id(job_id) not in ids:
        raise NoSuchJobError(job_id=job_id, root=storage.uri, known=", ".join(ids) or "none")
    sinks_of = sinks_of_job(None, location)
    # before the jobs, because an error here would lose the results of the jobs
    strange = tuple(_strange(storage, ids)) if job_id is None else ()
    temporary = tuple(_temporary(storage, delete=delete)) if job_id is None else ()
    jobs = [_job_garbage(storage, job, sinks_of, delete=delete) for job in ids if job_id in (None, job)]
    return GarbageReport(storage.uri, delete, tuple(jobs), temporary, strange)


def _job_garbage(storage: Storage, job_id: str, sinks_of: SinksOf, *, delete: bool) -> JobGarbage:
    garbage = _guarded(job_id, lambda: find_garbage(storage, job_id, sinks_of))
    if not delete or not garbage.garbage:
        return garbage
    return _guarded(job_id, lambda: GarbageRemoval(storage, garbage, sinks_of).run())


def _guarded(job_id: str, act: Callable[[], JobGarbage]) -> JobGarbage:
    try:
        return act()
    except CkptError as error:
        return JobGarbage(job_id, problem=str(error))
    except Exception as error:  # an error of one job must not hide the other jobs
        return JobGarbage(job_id, problem=described(error))


def _temporary(storage: Storage, *, delete: bool) -> Iterator[Garbage]:
    """Yield the temporary files that storage probes have left in the root. If ``delete`` is True, delete the files."""
    for path, size in storage.temporary("", LEFT_BEHIND, deep=False):
        if delete:
            storage.delete(path)
        yield Garbage(path, Reason.TEMPORARY, 1, size)


def _strange(storage: Storage, ids: list[str]) -> Iterator[StrangeFolder]:
    for name in storage.list(""):
        if name in ids or name == ROOT_MARKER:
            continue
        yield StrangeFolder(name, _describe_strange(storage, name))


def _describe_strange(storage: Storage, name: str) -> str:
    try:
        if is_job_id(name) and not storage.exists(name) and {*PARTS, JOURNAL}.intersection(storage.list(name)):
            return "it has no journal: the rest of a first start that was interrupted, or a job that lost its journal"
    except CkptError as error:
        return f"it cannot be read: {error}"
    return "it is no job of this package"


def _job_json(job: JobGarbage) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "status": job.status,
        "files": job.files,
        "bytes": job.bytes,
        "garbage": [_garbage_json(garbage) for garbage in job.garbage],
        "skipped": job.skipped,
        "problem": job.problem,
        "left": list(job.left),
    }


def _garbage_json(garbage: Garbage) -> dict[str, Any]:
    return {
        "path": garbage.path,
        "sink": garbage.sink,
        "reason": garbage.reason,
        "files": garbage.files,
        "bytes": garbage.bytes,
    }
