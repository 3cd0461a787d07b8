"""Functions of other versions of the job, which operators of the running one were given (R21)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark import cloudpickle

from airflow_provider_ckpt.job.loading import LoadedJob
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.version import Version, load_version
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings
from airflow_provider_ckpt.spark.query.code_places import CodePlaces
from airflow_provider_ckpt.storage.location import Location


@dataclass(frozen=True)
class OtherContents:
    """Not what operators were given under the reference: its file, or one that it imports, is another one now."""

    reference: str
    given: str
    found: str

    def __str__(self) -> str:
        return (
            f"{self.reference} is not what it was when it was assigned (digest {self.found} instead of {self.given}): "
            "this run goes by what is there now"
        )


class LogicLoader:
    """One for a process. A version that was read once is kept: every query, and every attempt of it, has the functions
    of that reading, until another one is assigned.

    ``params``: of the run, which those versions read as well; ``location``: of the root, for functions that look at
    other jobs; ``places``: where their code may lie. ``changed``: what was found other than the journal says. Any
    thread."""

    def __init__(self, params: Mapping[str, str], location: Location, places: CodePlaces) -> None:
        self._params, self._location, self.places = params, location, places
        self._versions: dict[tuple[str, str], Version] = {}
        """By their own digests."""
        self._instead: dict[tuple[str, str | None], Version] = {}
        """What was read where another digest was asked for: what has that one may be read yet."""
        self._lock = threading.Lock()
        self.changed: list[OtherContents] = []

    def __call__(self, reference: str, digest: str | None = None) -> Mapping[str, Operator]:
        """The operators of what was read with that digest; what is there now if this process has read nothing of the
        kind. Raises what loading a job's file raises."""
        return self._version(reference, digest).job.operators

    def found(self, reference: str, digest: str | None) -> str:
        """The digest of what a call gives: another one if that is not what was read with ``digest``. Raises as a call
        does."""
        version = self._version(reference, digest)
        return str(digest) if digest is not None and version.is_of(digest) else version.digest

    def as_read(self, settings: Settings) -> dict[str, VertexSettings]:
        """``settings`` with the digests of what this process has read for them: by which others are to go, too."""
        return {uid: replace(one, digests=self._digests(one)) for uid, one in settings.items()}

    def first_read(self, settings: Settings) -> dict[str, VertexSettings]:
        """``settings`` with the digests of those that nobody had read when they were assigned (for the next run): a
        later run says so if it finds them other than they are now."""
        read = self.as_read(settings)
        return {uid: replace(one, digests={**read[uid].digests, **one.digests}) for uid, one in settings.items()}

    def _digests(self, settings: VertexSettings) -> dict[str, str]:
        read = dict(settings.digests)
        for uid, reference in settings.logic.items():
            if (version := self._known(reference, read.get(uid))) is not None:
                read[uid] = version.digest
        return read

    def _version(self, reference: str, digest: str | None) -> Version:
        version = self._known(reference, digest)
        if version is None:
            found = self._read(reference)
            with self._lock:
                is_first = self._known(reference, digest) is None
                version = self._instead.setdefault((reference, digest), found)
                if is_first and not version.is_of(digest):
                    self.changed.append(OtherContents(reference, str(digest), version.digest))
        return version

    def _known(self, reference: str, digest: str | None) -> Version | None:
        own = None if digest is None else self._versions.get((reference, digest))
        return own or self._instead.get((reference, digest))

    def read(self, reference: str) -> str:
        """Read what is there now, whatever was read before, and return its digest. Raises as a call does."""
        return self._read(reference).digest

    def _read(self, reference: str) -> Version:
        """Without the lock: a file that hangs while it is run keeps nobody else from his."""
        self.places.check(reference)
        version = load_version(reference, self._params, self.places.check_of(reference))
        with self._lock:
            known = self._versions.setdefault((reference, version.digest), version)
            if known is version:  # before anybody else is given it
                cloudpickle.register_pickle_by_value(version.package)  # type: ignore[no-untyped-call]
                version.job.runs_under(self._location)
        if known is not version:
            version.forget()  # what is assigned each day is read each day, and is the same
        return known


def ship_functions(loaded: LoadedJob) -> None:
    """What the executors cannot import as it was loaded here, its functions are sent by value."""
    if loaded.by_value:
        cloudpickle.register_pickle_by_value(loaded.module)  # type: ignore[no-untyped-call]
