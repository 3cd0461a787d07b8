"""Functions from other versions of the job's file, which requests have assigned to operators of a running job (R21)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark import cloudpickle

from airflow_provider_ckpt.job.loading.loading import LoadedJob
from airflow_provider_ckpt.job.loading.version import Version, load_version
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings
from airflow_provider_ckpt.spark.plan.code_places import CodePlaces
from airflow_provider_ckpt.storage.location import Location


@dataclass(frozen=True)
class OtherContents:
    """A reference whose code has changed since its function was assigned: its file, or a module that the file imports.

    ``given`` is the digest at the assignment, and ``found`` the digest of the current files.
    """

    reference: str
    given: str
    found: str

    def __str__(self) -> str:
        return (
            f"{self.reference} is not what it was when it was assigned (digest {self.found} instead of {self.given}): "
            "this run uses the current files"
        )


class LogicLoader:
    """Loader of versions of the job. A version is the job's file or another file, with a digest of its code.

    A process has one loader for all threads. Each version is read once and kept in memory. So all queries and attempts
    run the same functions until another version is assigned.

    Attributes:
        location: location of the root, for functions that read other jobs.
        places: folders whose code may be loaded.
        changed: references whose files no longer have the requested digest. The current files are used instead.
    """

    def __init__(self, params: Mapping[str, str], location: Location, places: CodePlaces) -> None:
        self._params, self._location, self.places = params, location, places
        self._versions: dict[tuple[str, str], Version] = {}
        """(Reference, digest of its code) -> version that was read when the code had this digest."""
        self._replacements: dict[tuple[str, str | None], Version] = {}
        """(Reference, requested digest) -> version that was read instead, because the files had changed."""
        self._lock = threading.Lock()
        self.changed: list[OtherContents] = []

    def __call__(self, reference: str, digest: str | None = None) -> Mapping[str, Operator]:
        """Return operator uid -> operator, from the loaded version of ``reference`` with this digest.

        If no such version is loaded, read the current files, whatever their digest is.

        Raises the errors of loading a job's file.
        """
        return self._version(reference, digest).job.operators

    def digest_of(self, reference: str, digest: str | None) -> str:
        """Return the digest of the version that is used when ``digest`` is requested. It differs if files have changed.

        Raises the errors of loading a job's file.
        """
        return self._version(reference, digest).digest

    def with_read_digests(self, settings: Settings) -> dict[str, VertexSettings]:
        """Return ``settings`` with the digests of the versions that this process uses for their assigned functions."""
        return {uid: replace(setting, digests=self._digests(setting)) for uid, setting in settings.items()}

    def with_missing_digests(self, settings: Settings) -> dict[str, VertexSettings]:
        """Return ``settings`` with missing digests of assigned functions added, so that later runs can detect edits."""
        read = self.with_read_digests(settings)
        return {
            uid: replace(setting, digests={**read[uid].digests, **setting.digests}) for uid, setting in settings.items()
        }

    def _digests(self, settings: VertexSettings) -> dict[str, str]:
        read = dict(settings.digests)
        for uid, reference in settings.logic.items():
            if (version := self._cached(reference, read.get(uid))) is not None:
                read[uid] = version.digest
        return read

    def _version(self, reference: str, digest: str | None) -> Version:
        version = self._cached(reference, digest)
        if version is None:
            current = self._read(reference)
            with self._lock:
                is_first = self._cached(reference, digest) is None
                version = self._replacements.setdefault((reference, digest), current)
                if is_first and not version.matches(digest):
                    self.changed.append(OtherContents(reference, str(digest), version.digest))
        return version

    def _cached(self, reference: str, digest: str | None) -> Version | None:
        version = None if digest is None else self._versions.get((reference, digest))
        return version or self._replacements.get((reference, digest))

    def read(self, reference: str) -> str:
        """Read the current files of ``reference`` again, and return the digest of their code.

        Raises the errors of loading a job's file.
        """
        return self._read(reference).digest

    def _read(self, reference: str) -> Version:
        """Read the current files of ``reference``. Do not hold the lock, because a file may hang when it is loaded."""
        self.places.check(reference)
        version = load_version(reference, self._params, self.places.check_of(reference))
        with self._lock:
            kept = self._versions.setdefault((reference, version.digest), version)
            if kept is version:  # prepare it before another thread gets it
                cloudpickle.register_pickle_by_value(version.package)  # type: ignore[no-untyped-call]
                version.job.runs_under(self._location)
        if kept is not version:
            version.forget()  # unload this copy, because the same version is loaded already
        return kept


def ship_functions(loaded: LoadedJob) -> None:
    """If executors cannot import the job's module, make Spark send them the code of its functions (by value)."""
    if loaded.by_value:
        cloudpickle.register_pickle_by_value(loaded.module)  # type: ignore[no-untyped-call]
