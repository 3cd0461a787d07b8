"""Functions of other versions of the job, which operators of the running one were given (R21)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark import cloudpickle

from airflow_provider_ckpt.job.loading import LoadedJob
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.version import Version, load_version
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
    other jobs. ``changed``: what was found other than the journal says. Any thread."""

    def __init__(self, params: Mapping[str, str], location: Location) -> None:
        self._params, self._location = params, location
        self._versions: dict[tuple[str, str | None], Version] = {}
        self._lock = threading.Lock()
        self.changed: list[OtherContents] = []

    def __call__(self, reference: str, digest: str | None = None) -> Mapping[str, Operator]:
        """The operators of what was read with that digest; what is there now if this process has read nothing of the
        kind. Raises what loading a job's file raises."""
        with self._lock:
            version = self._versions.get((reference, digest))
            if version is None:
                version = self._versions[reference, digest] = self._read(reference)
                if digest not in (None, version.digest):
                    self.changed.append(OtherContents(reference, str(digest), version.digest))
            return version.job.operators

    def read(self, reference: str) -> str:
        """Read what is there now, whatever was read before, and return its digest. Raises as a call does."""
        with self._lock:
            return self._read(reference).digest

    def _read(self, reference: str) -> Version:
        version = load_version(reference, self._params)
        known = self._versions.setdefault((reference, version.digest), version)
        if known is version:
            cloudpickle.register_pickle_by_value(version.package)  # type: ignore[no-untyped-call]
            version.job.runs_under(self._location)
        return known


def ship_functions(loaded: LoadedJob) -> None:
    """What the executors cannot import as it was loaded here, its functions are sent by value."""
    if loaded.by_value:
        cloudpickle.register_pickle_by_value(loaded.module)  # type: ignore[no-untyped-call]
