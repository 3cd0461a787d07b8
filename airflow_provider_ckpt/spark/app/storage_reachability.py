"""Checks that Spark reaches the job's storages, and that Spark and this process see the same storages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.spark.app.hadoop_settings import CREDENTIALS, hadoop_settings, split_setting
from airflow_provider_ckpt.spark.app.session import build_session
from airflow_provider_ckpt.spark.errors import SparkStorageError
from airflow_provider_ckpt.storage.errors import StorageUnreachableError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import ROOT_MARKER
from airflow_provider_ckpt.storage.storage import Storage

Opened = tuple[Storage, Location]
"""A storage and the location that it was opened with. The storage's URI is canonical."""

_USERS = "spark.hadoop."
# The file system's class is missing or does not fit this Hadoop: jars are missing or have other versions.
_MISSING = (
    "ClassNotFoundException",
    "LinkageError",
    "NoClassDefFoundError",
    "NoSuchFieldError",
    "NoSuchMethodError",
    "UnsupportedFileSystemException",
)
_DENIED = (
    "AccessDeniedException",
    "FileNotFoundException",
    "UnknownStoreException",
    "CredentialInitializationException",
)


def spark_locations(job: Job, root: Storage, location: Location) -> list[Opened]:
    """Return the root and the sinks' folders that Spark itself reads or writes. Local folders are left out."""
    opened = [(root, location)]
    for operator in job.sinks:
        opened += [
            (open_storage(location_of_sink), location_of_sink)
            for location_of_sink in operator.sink.spark_folders(location.options)
        ]
    return [
        (storage, location_of_sink)
        for storage, location_of_sink in opened
        if not storage.spark_uri().startswith("file:")
    ]


def reach_root(job: Job, options: RunOptions, root: Storage, location: Location) -> StorageReachability | None:
    """Connect Spark with every storage of the job. Return Spark's access to the root; None for a local root.

    Raises the errors of :func:`build_session` and :meth:`StorageReachability.connect`.
    """
    locations = spark_locations(job, root, location)
    if not locations:
        return None
    reach = StorageReachability(build_session(options.job_id, options.conf))
    reach.connect(locations)
    return reach if any(storage is root for storage, _ in locations) else None


class StorageReachability:
    """Access of a Spark session to storages.

    Settings for storages may be secret. So they are set in Hadoop's configuration of the driver, which Spark sends to
    its tasks. Spark's own configuration would show them in the UI and on command lines.
    """

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._jvm: Any = context._jvm
        self._conf: Any = context._jsc.hadoopConfiguration()
        self._users = {key.removeprefix(_USERS) for key, _ in context.getConf().getAll() if key.startswith(_USERS)}

    def connect(self, locations: Iterable[Opened]) -> None:
        """Apply the locations' settings, and check that Spark reaches them. Spark settings of the user have priority.

        Call this before any function of the user. Hadoop creates the file system of a bucket at its first use, and
        later settings do not change the file system.

        Raises SparkStorageError, StorageUnreachableError.
        """
        locations = list(locations)
        for key, value in merged(locations).items():
            if not self._is_users(key):
                self._conf.set(key, value)
        stores: set[str] = set()
        for storage, place in locations:
            folder = storage.spark_uri()
            store = "/".join(folder.split("/")[:3])
            if store not in stores:
                stores.add(store)
                self.exists(storage, "", place)

    def check_same(self, root: Storage, location: Location) -> None:
        """Check that Spark sees the root's marker file. The file must exist.

        Raises SparkStorageError.
        """
        if not self.exists(root, ROOT_MARKER, location):
            raise SparkStorageError(
                "Spark does not see {marker} at {spark_uri}, which this process sees at {uri}: the two talk to "
                "different stores; give Spark the same endpoint (the storage option endpoint_url, or "
                "spark.hadoop.fs.s3a.endpoint)",
                uri=root.uri,
                spark_uri=root.spark_uri(),
                marker=ROOT_MARKER,
            )

    def exists(self, storage: Storage, path: str, location: Location) -> bool:
        """Return whether Spark's file system in the driver finds the path.

        Raises SparkStorageError, StorageUnreachableError.
        """
        try:
            at = self._jvm.org.apache.hadoop.fs.Path(storage.spark_uri(path))
            return bool(at.getFileSystem(self._conf).exists(at))
        except Py4JJavaError as error:
            self._refuse(storage, location, error)

    def _refuse(self, storage: Storage, location: Location, error: Py4JJavaError) -> NoReturn:
        names, text = _names_and_text(error.java_exception)
        reason = location.redact(text)
        uri = storage.spark_uri()
        if names & set(_MISSING):
            raise SparkStorageError(
                "Spark cannot open {uri}: {reason}; give Spark {hint}", uri=uri, reason=reason, hint=self._hint(uri)
            ) from None
        if names & set(_DENIED):
            raise SparkStorageError(
                "Spark was refused at {uri}, which this process can read: {reason}; if credentials, endpoint or "
                "region are not in the storage options, give them to Spark, too (spark.hadoop.fs.s3a.…, or the "
                "environment of the driver)",
                uri=uri,
                reason=reason,
            ) from None
        raise StorageUnreachableError(uri=uri, reason=f"Spark reports: {reason}") from None

    def _hint(self, uri: str) -> str:
        version = self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
        if uri.startswith("s3a:"):
            return f"--packages org.apache.hadoop:hadoop-aws:{version} (in ckpt run: --conf spark.jars.packages=…)"
        return f"the jars of its Hadoop file system, for Hadoop {version}"

    def _is_users(self, key: str) -> bool:
        bucket, name = split_setting(key)
        together = CREDENTIALS if name in CREDENTIALS else {name}
        prefixes = ("fs.s3a.", f"fs.s3a.bucket.{bucket}.")
        return any(f"{prefix}{suffix}" in self._users for prefix in prefixes for suffix in together)


def merged(locations: Iterable[Opened]) -> dict[str, str]:
    """Return Hadoop's settings for all locations.

    Raises SparkStorageError if two locations in a bucket have different settings.
    """
    settings: dict[str, dict[str, str]] = {}
    for storage, place in locations:
        for_bucket = hadoop_settings(storage.uri, place.options)
        bucket = "/".join(storage.uri.split("/")[:3])
        if settings.setdefault(bucket, for_bucket) != for_bucket:
            names = {key for key, _ in settings[bucket].items() ^ for_bucket.items()}
            raise SparkStorageError(
                "two locations in {uri} have storage options that differ ({names}), and Spark knows one set for a "
                "bucket; give both the same, or use two buckets",
                uri=bucket,
                names=", ".join(sorted(split_setting(key)[1] for key in names)),
            )
    return {key: value for options_of_bucket in settings.values() for key, value in options_of_bucket.items()}


def _names_and_text(throwable: Any) -> tuple[set[str], str]:
    """Return (simple class names of a Java exception and its causes, innermost message)."""
    names: set[str] = set()
    text = ""
    while throwable is not None:
        kind = throwable.getClass()
        message = throwable.getMessage()
        if message or not text:
            text = f"{kind.getSimpleName()}: {message}" if message else str(kind.getSimpleName())
        while kind is not None:  # superclasses count, because a missing class raises any of many LinkageErrors
            names.add(str(kind.getSimpleName()))
            kind = kind.getSuperclass()
        throwable = throwable.getCause()
    return names, text.splitlines()[0][:500]
