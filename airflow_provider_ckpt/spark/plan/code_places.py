"""Folders whose code a driver runs if a request or a journal names it.

Anyone who may write to a root can write a request that names a file. So a driver runs only files in the folder or
package of the job's own file, or in folders that the user adds when the driver starts. A file below a root or in a
sink's folder is always refused. Permission to write data is not permission to run code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, PathFinder

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.loading.followed_imports import package_around
from airflow_provider_ckpt.job.loading.loading import parts_of, path_of
from airflow_provider_ckpt.job.loading.module_origins import is_foreign
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.job.sink_operator import HasSinks
from airflow_provider_ckpt.sinks.file.file_folders import BOOKS_PREFIX
from airflow_provider_ckpt.spark.query.errors import ForeignCodeError
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.nesting import lies_in
from airflow_provider_ckpt.storage.root import ROOT_MARKER


@dataclass(frozen=True)
class CodePlaces:
    """Folders whose code a run may use, and folders with data, whose code it refuses. Checks import nothing.

    Attributes:
        job: reference of the job's own file or module.
        added: further folders that the user has allowed at the start of the driver (``allow_code_from``).
        written: URIs or paths of folders with data: the job's root, and the folders of its sinks and sources.
    """

    job: str
    added: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, job: HasSinks, options: RunOptions, root: Location, reads: Mapping[str, SourceReads] | None = None
    ) -> CodePlaces:
        """Return the places for a run of ``job``. ``reads``: source -> its reads; None if no source is planned."""
        outputs = [folder.uri for operator in job.sinks for folder in operator.sink.spark_folders(root.options)]
        places = cls(options.job, options.allow_code_from, (root.uri, *outputs))
        return places if reads is None else places.without_input(reads.values())

    def without_input(self, reads: Iterable[SourceReads]) -> CodePlaces:
        """Return a copy that also refuses code in folders of sources, except folders around the job's own code."""
        paths = [path for read in reads if read.is_file for path in read.paths]
        own_folders = _own_folders(self.job)
        inputs = [path for path in paths if not any(lies_in(folder, path) for folder in own_folders)]
        return replace(self, written=(*self.written, *inputs))

    def is_own(self, reference: str) -> bool:
        """Return whether ``reference`` names the job's own file or module."""
        own_code = _own_code(self.job)
        return own_code is not None and own_code == _module_and_files(reference)

    def check(self, reference: str) -> None:
        """Refuse a reference whose code is in a folder with data, or in no allowed folder. Allow the job's own file.

        Raises ForeignCodeError, and what :func:`path_of` raises.
        """
        if self.is_own(reference):
            return
        for place in _module_and_files(reference)[1]:
            self._check_place(reference, place)

    def check_of(self, reference: str) -> Callable[[str], None] | None:
        """Return a function that refuses a file by its real path; None if ``reference`` is the job's own module.

        Call the function before each file is read. :meth:`check` alone is not enough. A link may change before its file
        is read, and a package may import from other folders. If the first file is the job's own, the function allows
        all files.
        """
        own_code = _own_code(self.job)
        if own_code is not None and own_code[0] and self.is_own(reference):
            return None
        first: list[str] = []

        def check(place: str) -> None:
            first.append(place)
            if own_code is None or first[0] not in own_code[1]:
                self._check_place(reference, place)

        return check

    def _check_place(self, reference: str, place: str) -> None:
        written = self._written_above(place)
        if written is not None:
            raise ForeignCodeError(
                "the code of {reference} is not run: {place} lies below {written}. Data must not run as code. Put the "
                "file into the folder of the job's own file",
                reference=reference,
                place=place,
                written=written,
            )
        allowed = self.folders()
        if not any(_is_within(place, folder) for folder in allowed):
            folders = ", ".join(allowed) or "none"
            folder = place if os.path.isdir(place) else os.path.dirname(place)
            raise ForeignCodeError(
                "the code of {reference} is not run: {place} lies in none of the folders that a request may name code "
                "from ({known}). Those are the folder or package of the job's own file, and what --allow-code-from "
                "adds (allow_code_from in Airflow). Put the file there, or start the driver with --allow-code-from "
                "{folder}",
                reference=reference,
                place=place,
                known=folders,
                folder=folder,
            )

    def folders(self) -> tuple[str, ...]:
        """Return the folders whose code may run: first the folders of the job's own code, then the added folders."""
        return tuple(dict.fromkeys([*_own_folders(self.job), *map(os.path.realpath, self.added)]))

    def _written_above(self, place: str) -> str | None:
        """Return the data folder around ``place``, as text for a message; None if no data folder is around it."""
        for uri in self.written:
            if lies_in(place, uri):
                return f"{uri}, where data is written"
        folder = os.path.dirname(place)
        while folder != os.path.dirname(folder):
            above, name = os.path.split(folder)
            if os.path.lexists(os.path.join(folder, ROOT_MARKER)):
                return f"{folder}, a checkpoint root"
            if name.startswith(BOOKS_PREFIX) or os.path.lexists(os.path.join(above, BOOKS_PREFIX + name)):
                return f"{folder}, the folder of a sink"
            folder = above
        return None


def _module_and_files(reference: str) -> tuple[str, tuple[str, ...]]:
    """Return (module name, paths) of a reference. For a file, return "" and the file's path.

    The paths of a module are the folders of the packages around it, then its own file or folders.
    """
    target, _, from_file = parts_of(reference)
    if from_file:
        return "", (path_of(reference, target),)
    return target, tuple(_places_of_module(target))


def _places_of_module(module: str) -> Iterator[str]:
    """Yield the folders of each package around a module, then its own file or folders. Nothing is imported."""
    entries: list[str] = [entry or os.getcwd() for entry in sys.path]
    for part in module.split("."):
        spec = PathFinder.find_spec(part, entries)
        if spec is None:
            return
        yield from (os.path.realpath(place) for place in _places(spec))
        entries = list(spec.submodule_search_locations or ())


def _places(spec: ModuleSpec) -> list[str]:
    return [str(spec.origin)] if spec.submodule_search_locations is None else list(spec.submodule_search_locations)


def _own_code(job: str) -> tuple[str, tuple[str, ...]] | None:
    """Return :func:`_module_and_files` of the job's own reference; None if the job's file is gone."""
    try:
        return _module_and_files(job)
    except CkptError:
        return None


def _own_folders(job: str) -> list[str]:
    """Return the folders of the job's own file or module; empty if its file is gone.

    For code in a package, that is the folder of the outermost package. Otherwise it is the folder around the file.
    """
    own_code = _own_code(job)
    if own_code is None:
        return []
    module, places = own_code
    if module:
        places = tuple(_places_of_module(module.partition(".")[0]))
    else:
        [path] = places
        above, package = package_around(os.path.dirname(path))
        return [os.path.join(above, package) if package else above]
    # for a module without a package, return its folder, unless the folder has installed modules
    return [os.path.dirname(place) if place.endswith(".py") and not is_foreign(place) else place for place in places]


def _is_within(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip(os.sep) + os.sep)
