"""A check that the state after a committed batch is complete: the files below ``state/`` in a Spark folder.

The commit of a batch names the version of each store, in each partition of each stateful operator (RocksDB, checkpoint
format 2). ``<batch + 1>_<id>.zip`` is a snapshot, and ``.changelog`` has the changes since the previous version. A
snapshot names the files in ``SSTs/`` with the rows. Spark detects damage only when it runs a batch.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import NoReturn

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.sparkfiles.checksum import is_as_written
from airflow_provider_ckpt.sparkfiles.errors import SparkStateLostError
from airflow_provider_ckpt.sparkfiles.spark_json import parsed
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import UNREADABLE, refused_as
from airflow_provider_ckpt.storage.storage import Storage

_METADATA = "/_metadata/"
_SCHEMAS = "/_stateSchema/"
_CHANGED = "is not what Spark wrote"
_SCHEMA = re.compile(r"/state/([^/]+/_stateSchema/.+)$")


class StateCheck:
    """The check of one Spark folder's state. Its cost is one listing, and one small read for each state partition."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage, self._folder, self._state = storage, folder, f"{folder}/state"

    def run(self, batch_id: int, commit: str) -> None:
        """Refuse incomplete state. ``commit`` is the second line of the batch's entry in ``commits``.

        The check omits the content of ``SSTs/`` and of change logs, and files before the newest change log. It omits
        the files of a snapshot that another version of Spark lists in another format.

        Raises SparkStateLostError, and the storage's errors.
        """
        with refused_as(lambda _: SparkStateLostError(uri=self._commit_uri(batch_id), problem=_CHANGED)):
            versions = list(_versions(batch_id, commit))
        if not versions:
            return
        sizes = dict(self._storage.files(self._state))
        for name, size in sizes.items():
            if (_METADATA in name or _SCHEMAS in name) and not name.endswith(".crc"):
                self._check_metadata(name, size)
        for operator in sorted({part.partition("/")[0] for part, _ in versions}):
            self._check_schemas(operator, sizes)
        for part, version in versions:
            name = self._newest(part, version, sizes)
            if sizes[name] == 0:
                self._refuse(name, "is empty")
            if name.endswith(".zip"):
                self._check_snapshot(name, sizes)

    def _check_metadata(self, name: str, size: int) -> None:
        """Refuse an empty or damaged file with a store's schema, or with the description of an operator's stores."""
        if size == 0:
            self._refuse(name, "is empty")
        path = f"{self._state}/{name}"
        if not is_as_written(self._storage, path, self._storage.read(path)):
            self._refuse(name, "is not what Spark wrote, by its checksum")

    def _check_schemas(self, operator: str, sizes: dict[str, int]) -> None:
        """Refuse an operator without schemas, because Spark would write them again and accept any query."""
        metadata = [name for name in sizes if name.startswith(f"{operator}{_METADATA}") and not name.endswith(".crc")]
        if not metadata:
            self._refuse(f"{operator}/_metadata", "is missing")
        schema_files = set().union(*(self._named_schemas(name) for name in metadata))
        for name in sorted(schema_files - sizes.keys()):
            self._refuse(name, "is missing")
        schema_of_store = re.compile(rf"{re.escape(operator)}/\d+/(.+/)?_metadata/schema")
        if not schema_files and not any(map(schema_of_store.fullmatch, sizes)):
            self._refuse(f"{operator}/0/_metadata/schema", "is missing")

    def _named_schemas(self, name: str) -> set[str]:
        """Return the schema files that an operator's metadata names (version 2); empty if each store has its own."""
        try:
            _, body = self._storage.read(f"{self._state}/{name}").decode().splitlines()
            stores = parsed(body)["stateStoreInfo"]
            paths = [path for store in stores for path in store.get("stateSchemaFilePaths") or ()]
            return {match[1] for path in paths if (match := _SCHEMA.search(path)) is not None}
        except UNREADABLE:
            self._refuse(name, _CHANGED)

    def _newest(self, part: str, version: str, sizes: dict[str, int]) -> str:
        """Return the path of the version's snapshot, or of its change log if there is no snapshot."""
        files = {path.rpartition(".")[2]: path for path in sizes if _is_version_file(path, part, version)}
        if not files:
            self._refuse(f"{part}/{version}.zip", "is missing")
        return files.get("zip") or files["changelog"]

    def _check_snapshot(self, name: str, sizes: dict[str, int]) -> None:
        try:
            files = _snapshot_files(self._storage.read(f"{self._state}/{name}"))
        except ObjectNotFoundError:
            self._refuse(name, "is missing")
        except CkptError:
            raise
        except Exception:  # zipfile raises errors of every compression
            self._refuse(name, _CHANGED)
        for file, size in files.items():
            path = f"{name.rpartition('/')[0]}/SSTs/{file}"
            if path not in sizes:
                self._refuse(path, "is missing")
            if sizes[path] != size:
                self._refuse(path, f"has {sizes[path]} bytes of {size}")

    def _commit_uri(self, batch_id: int) -> str:
        return self._storage.full_uri(f"{self._folder}/commits/{batch_id}")

    def _refuse(self, name: str, problem: str) -> NoReturn:
        raise SparkStateLostError(uri=self._storage.full_uri(f"{self._state}/{name}"), problem=problem)


def _versions(batch_id: int, commit: str) -> Iterator[tuple[str, str]]:
    operators: dict[str, list[list[str]]] = parsed(commit).get("stateUniqueIds") or {}
    for operator, partitions in operators.items():
        for number, stores in enumerate(partitions):
            for version in stores:
                yield f"{operator}/{number}", f"{batch_id + 1}_{version}"


def _is_version_file(path: str, part: str, version: str) -> bool:
    """Return True if ``path`` is the snapshot (.zip) or change log of ``version``, in ``part`` or a folder below it.

    Each additional store of a part has a folder of its own.
    """
    name = path.rpartition("/")[2]
    return path.startswith(f"{part}/") and name in (f"{version}.zip", f"{version}.changelog")


def _snapshot_files(snapshot: bytes) -> dict[str, int]:
    """Return file → size in bytes, for the files of which a snapshot consists.

    Raises the errors of :mod:`zipfile` if the snapshot is damaged.
    """
    with zipfile.ZipFile(io.BytesIO(snapshot)) as archive:
        if archive.testzip() is not None:
            raise zipfile.BadZipFile
        _, _, body = archive.read("metadata").decode().partition("\n")
    try:
        return {file["dfsSstFileName"]: file["sizeBytes"] for file in parsed(body)["sstFiles"]}
    except UNREADABLE:
        return {}  # the archive is undamaged, so another version of Spark wrote it in another form
