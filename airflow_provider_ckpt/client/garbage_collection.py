"""What nothing needs any more under a root: found, named, and deleted if that is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.client.errors import NoSuchJobError
from airflow_provider_ckpt.client.sinks_of_job import sinks_of_job
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job import kinds
from airflow_provider_ckpt.jobmaster.garbage import Garbage, JobGarbage, Reason, StrangeFolder
from airflow_provider_ckpt.jobmaster.garbage_removal import GarbageRemoval
from airflow_provider_ckpt.jobmaster.garbage_search import SinksOf, find_garbage
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
    """What was found under a root, or deleted there."""

    root: str
    deleted: bool
    """Whether it was to be deleted; else nothing was."""
    jobs: tuple[JobGarbage, ...]
    """By id, those of which nothing is to be said, too."""
    temporary: tuple[Garbage, ...] = ()
    """Directly in the root, of no job."""
    strange: tuple[StrangeFolder, ...] = ()
    """What is no job, by its name. Never touched."""

    @property
    def files(self) -> int:
        return sum(one.files for one in self.jobs) + sum(one.files for one in self.temporary)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.jobs) + sum(one.bytes for one in self.temporary)

    @property
    def problems(self) -> dict[str, str]:
        """Job id -> what could not be read, listed or deleted of it."""
        return {one.job_id: one.problem for one in self.jobs if one.problem is not None}

    def to_json(self) -> dict[str, Any]:
        """What ``ckpt gc --json`` prints (docs/cli.md)."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "root": self.root,
            "deleted": self.deleted,
            "files": self.files,
            "bytes": self.bytes,
            "jobs": [_job_json(one) for one in self.jobs],
            "temporary": [_garbage_json(one) for one in self.temporary],
            "strange": [{"name": one.name, "what": one.what} for one in self.strange],
        }


def collect_garbage(
    root: Location | str | os.PathLike[str] | Storage, job_id: str | None = None, *, delete: bool = False
) -> GarbageReport:
    """Find what nothing needs any more of every job under a root, or of one, and delete it if ``delete``. Needs no
    Spark, and claims no job. One that somebody runs, or may be running, is skipped.

    What cannot be read or listed is a ``problem`` of its job, of which then nothing is deleted. Staged output is found
    of file sinks, reached with the options of the root; of others it is left, and they are named. Raises NoRootError,
    ForeignRootError, NoSuchJobError, InvalidJobIdError, BadOptionError (``delete`` is no bool), and what the storage
    fails with before a job is looked at.
    """
    kinds.FLAG.read(delete, "delete")
    storage = read_root(root if isinstance(root, Storage) else open_storage(root))
    location = Location(root.uri) if isinstance(root, Storage) else Location.of(root)
    known = job_ids(storage)
    if job_id is not None and check_job_id(job_id) not in known:
        raise NoSuchJobError(job_id=job_id, root=storage.uri, known=", ".join(known) or "none")
    sinks_of = sinks_of_job(None, location)
    # before the jobs: what it may fail with would lose what was told of them
    strange = tuple(_strange(storage, known)) if job_id is None else ()
    temporary = tuple(_temporary(storage, delete=delete)) if job_id is None else ()
    jobs = [_of_job(storage, one, sinks_of, delete=delete) for one in known if job_id in (None, one)]
    return GarbageReport(storage.uri, delete, tuple(jobs), temporary, strange)


def _of_job(storage: Storage, job_id: str, sinks_of: SinksOf, *, delete: bool) -> JobGarbage:
    found = _tried(job_id, lambda: find_garbage(storage, job_id, sinks_of))
    if not delete or not found.garbage:
        return found
    return _tried(job_id, lambda: GarbageRemoval(storage, found, sinks_of).run())


def _tried(job_id: str, act: Callable[[], JobGarbage]) -> JobGarbage:
    try:
        return act()
    except CkptError as error:
        return JobGarbage(job_id, problem=str(error))
    except Exception as error:  # one job must not hide the others
        return JobGarbage(job_id, problem=described(error))


def _temporary(storage: Storage, *, delete: bool) -> Iterator[Garbage]:
    """Of probes."""
    for path, size in storage.temporary("", LEFT_BEHIND, deep=False):
        if delete:
            storage.delete(path)
        yield Garbage(path, Reason.TEMPORARY, 1, size)


def _strange(storage: Storage, known: list[str]) -> Iterator[StrangeFolder]:
    for name in storage.list(""):
        if name in known or name == ROOT_MARKER:
            continue
        yield StrangeFolder(name, _what_is_strange(storage, name))


def _what_is_strange(storage: Storage, name: str) -> str:
    try:
        if is_job_id(name) and not storage.exists(name) and {*PARTS, JOURNAL}.intersection(storage.list(name)):
            return "it has no journal: the rest of a first start that was interrupted, or a job that lost its journal"
    except CkptError as error:
        return f"it cannot be read: {error}"
    return "it is none of ours"


def _job_json(job: JobGarbage) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "status": job.status,
        "files": job.files,
        "bytes": job.bytes,
        "garbage": [_garbage_json(one) for one in job.garbage],
        "skipped": job.skipped,
        "problem": job.problem,
        "left": list(job.left),
    }


def _garbage_json(one: Garbage) -> dict[str, Any]:
    return {"path": one.path, "sink": one.sink, "reason": one.reason, "files": one.files, "bytes": one.bytes}
