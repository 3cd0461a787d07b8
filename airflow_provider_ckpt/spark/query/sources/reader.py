"""Readers for the functions of sources. They record the format, options and paths that a function sets.

Batch and streaming readers have the same methods, so one source function works in both runtime modes.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from airflow_provider_ckpt.spark.query.event_time import hold_event_time
from airflow_provider_ckpt.spark.query.kafka.freezing import only_frozen
from airflow_provider_ckpt.spark.query.kafka.kafka_options import DEFAULT_LIMIT, HELD, SELECTING
from airflow_provider_ckpt.spark.query.kafka.offsets import FrozenOffsets
from airflow_provider_ckpt.spark.query.sources.malformed import MalformedRule, Treatment, load_treated
from airflow_provider_ckpt.spark.query.stored_schemas import refuse_foreign_types
from airflow_provider_ckpt.sparkfiles.seen_files import escaped_glob
from airflow_provider_ckpt.sparkfiles.temporary_names import has_temporary_name, other_names

FILE_FORMATS = frozenset({"parquet", "csv", "json", "orc", "text", "avro", "xml", "binaryfile"})
FILE_LIMITS = ("maxbytespertrigger", "maxfilespertrigger")
KAFKA_LIMITS = ("maxoffsetspertrigger",)
NEVER_FORGOTTEN = "100000000d"
"""Value of ``maxFileAge`` with which Spark never forgets a file.

By default Spark forgets files that are seven days older than the newest file, and ignores new files of that age. So a
file whose time changes would be read twice, and an old file that is put back would never be read.
"""


_BRACES = re.compile(r"\{([^{}]*)\}")
"""Pattern of braces that contain no other braces, in a path pattern of Hadoop."""


@dataclass
class SourceReads:
    """Format, options and paths that a source function has set on its reader."""

    format: str = "parquet"
    options: dict[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    loads: int = 0
    schema: StructType | None = None
    """Schema of the frame that the reader loaded, before the function selects columns; None if nothing is loaded."""
    topics: dict[str, str] = field(default_factory=dict)
    """Topic name -> topic id, for a Kafka source."""
    skips_temporary: bool = True
    """True if a file source leaves out files with temporary names. For exceptions see :meth:`name_filter`."""

    @property
    def is_file(self) -> bool:
        return self.format.lower() in FILE_FORMATS and bool(self.paths)

    @property
    def patterns(self) -> list[str]:
        """The paths with braces expanded. In Hadoop's patterns ``{a,b}`` means alternatives, but not in Python's."""
        return [pattern for path in self.paths for pattern in _alternatives(path)]

    @property
    def is_kafka(self) -> bool:
        return self.format.lower() == "kafka"

    @property
    def has_end(self) -> bool:
        """True if the end of the source can be frozen before it is read, that is, for files and Kafka."""
        return self.is_file or self.is_kafka

    def name_filter(self) -> dict[str, str]:
        """Return the reader's option that leaves out temporary files; empty if the source must read them.

        Spark accepts only one pattern, so a ``pathGlobFilter`` of the user has priority. Files are not left out if a
        path in the source's declaration itself has a temporary name.
        """
        has_filter = any(key.lower() == "pathglobfilter" for key in self.options)
        if not self.is_file or not self.skips_temporary or has_filter or any(map(has_temporary_name, self.paths)):
            return {}
        return {"pathGlobFilter": other_names()}

    def limits_itself(self) -> bool:
        """Return whether the source's function has set a limit for micro-batches that fits the source's format."""
        limits = KAFKA_LIMITS if self.is_kafka else FILE_LIMITS
        return any(key.lower() in limits for key in self.options)


def _alternatives(pattern: str) -> Iterator[str]:
    """Expand alternatives in braces: ``a{b,{c,d}}`` -> ab, ac, ab, ad."""
    braces = _BRACES.search(pattern)
    if braces is None:
        yield pattern
        return
    for alternative in braces[1].split(","):
        yield from _alternatives(f"{pattern[: braces.start()]}{alternative}{pattern[braces.end() :]}")


def ignores_header(form: str, options: Mapping[str, str]) -> bool:
    """Return whether a CSV source has a header, and no ``enforceSchema`` option.

    By default, Spark would then match columns by position, and not by the header's names.
    """
    by_name = {key.lower(): value.lower() for key, value in options.items()}
    return form.lower() == "csv" and by_name.get("header") == "true" and "enforceschema" not in by_name


def _schema_of(schema: StructType | str) -> StructType:
    """Return a reader's schema as a StructType. ``schema`` may be DDL text, which Spark has accepted before."""
    if isinstance(schema, StructType):
        return schema
    parsed = StructType.fromDDL(schema)
    assert isinstance(parsed, StructType), schema
    return parsed


def _absolute(spark: SparkSession, path: str) -> str:
    """Return ``path`` as an absolute path. Spark's file system resolves a relative path from its working directory.

    Stored as it is, a relative path could mean another folder in a later run.
    """
    if path.startswith("/") or ":" in path.partition("/")[0] or not path:
        return path
    jvm: Any = spark._jvm
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    return str(
        hadoop_path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        .makeQualified(hadoop_path)
        .toString()
    )


class _Checked:
    """Base class of all readers. It records format and options, and adds checks of CSV headers and malformed rows."""

    reads: SourceReads
    _spark: SparkSession
    _malformed: MalformedRule | None = None
    _schema: StructType | None = None
    """The schema that the user has set; None if Spark infers it."""

    def format(self, source: str) -> Any:
        self.reads.format = source
        return super().format(source)  # type: ignore[misc]

    def schema(self, schema: StructType | str) -> Any:
        reader = super().schema(schema)  # type: ignore[misc]
        self._schema = _schema_of(schema)
        return reader

    def option(self, key: str, value: Any) -> Any:
        self.reads.options[key] = str(value)
        return self._set(key, value)

    def _set(self, key: str, value: Any) -> Any:
        """Set an option on Spark's reader without recording it in ``reads``."""
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        for key, value in options.items():
            self.option(key, value)
        return self

    def load(
        self,
        path: Any = None,
        format: str | None = None,  # noqa: A002 - Spark's own name
        schema: Any = None,
        **options: Any,
    ) -> DataFrame:
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        path = self._before_load(path)
        if ignores_header(self.reads.format, self.reads.options):
            self._set("enforceSchema", False)
        frame = refuse_foreign_types(self._load(path))
        self.reads.schema = frame.schema
        return frame

    def _before_load(self, path: Any) -> Any:
        """Return the path to load. Subclasses record the path and set further options here."""
        return path

    def _load(self, path: Any) -> DataFrame:
        return load_treated(self._treatment(), self._schema, lambda: self._read(path), self._configure)

    def _treatment(self) -> Treatment | None:
        rule, reads = self._malformed, self.reads
        return None if rule is None else rule.treatment(self._spark, reads.format, reads.options, self._schema)

    def _read(self, path: Any) -> DataFrame:
        return super().load(path) if path is not None else super().load()  # type: ignore[misc,no-any-return]

    def _configure(self, schema: StructType, options: Mapping[str, str]) -> None:
        super().schema(schema)  # type: ignore[misc]
        for key, value in options.items():
            self._set(key, value)


class _Recording(_Checked):
    """Base class of :class:`StreamReader` and :class:`BatchReader`. It also records the paths."""

    before_load: Callable[[], None]
    _offsets: FrozenOffsets | None = None
    """The frozen end of a bounded Kafka source, which replaces the range in the options; None if nothing is frozen."""
    _path: Any = None
    """Value of the option ``path``; None if it is not set. It is loaded as an argument, so that it is recorded."""

    def option(self, key: str, value: Any) -> Any:
        if key.lower() == "path":
            self._path = value
            return self
        if key.lower() not in HELD:
            return super().option(key, value)
        self.reads.options[key] = str(value)  # set in ``load``, because Spark cannot remove an option
        return self

    def _before_load(self, path: Any) -> Any:
        if path is None:
            path = self._path
        elif self._path is not None:
            self._set("path", self._path)  # Spark refuses two paths with an error that explains it
        self._record(path)
        for key, value in {**self._held(), **self.reads.name_filter()}.items():
            self._set(key, value)
        return path

    def _held(self) -> dict[str, str]:
        """Return the Kafka options for topics and offsets. They are set at the load, when the format is known."""
        return {key: value for key, value in self.reads.options.items() if key.lower() in HELD}

    def _treatment(self) -> Treatment | None:
        treatment = super()._treatment()
        if self._malformed is not None and treatment is None:
            self._malformed.refuse_choice(self.reads.format)
        return treatment

    def _record(self, path: Any) -> None:
        self.reads.loads += 1
        paths = [path] if isinstance(path, str) else path if isinstance(path, Sequence) else []
        qualified = self.reads.format.lower() in FILE_FORMATS
        self.reads.paths = [_absolute(self._spark, str(part)) if qualified else str(part) for part in paths]
        self.before_load()

    def _file(self, source: str, path: Any, options: dict[str, Any]) -> DataFrame:
        named = {key: value for key, value in options.items() if value is not None and key != "schema"}
        return self.load(path, format=source, schema=options.get("schema"), **named)

    def parquet(self, path: Any, **options: Any) -> DataFrame:
        return self._file("parquet", path, options)

    def csv(self, path: Any, schema: Any = None, **options: Any) -> DataFrame:
        return self._file("csv", path, {**options, "schema": schema})

    def json(self, path: Any, schema: Any = None, **options: Any) -> DataFrame:
        return self._file("json", path, {**options, "schema": schema})

    def orc(self, path: Any, **options: Any) -> DataFrame:
        return self._file("orc", path, options)

    def text(self, path: Any, **options: Any) -> DataFrame:
        return self._file("text", path, options)

    def xml(self, path: Any, schema: Any = None, **options: Any) -> DataFrame:
        return self._file("xml", path, {**options, "schema": schema})

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - Spark's own name
        self.reads.format = "table"
        self.reads.loads += 1
        return super().table(tableName)  # type: ignore[misc,no-any-return]


class StreamReader(_Recording, DataStreamReader):  # type: ignore[misc]
    """Reader of a source in streaming mode.

    Args:
        uid: uid of the source. Spark uses it as the name of the stream.
        limit: bytes that a file source reads in a micro-batch; None for no limit. A limit of the user's function
            replaces it.
        offsets: frozen end of a bounded Kafka source; None if it is not frozen.
        holds_event_time: True if the source holds back event time (:func:`.hold_event_time`).
        select: returns the frame of a file source with only the files that the source must read.
    """

    def __init__(
        self,
        spark: SparkSession,
        uid: str,
        limit: int | None,
        offsets: FrozenOffsets | None = None,
        *,
        bounded: bool = False,
        holds_event_time: bool = False,
        skips_temporary: bool = True,
        malformed: MalformedRule | None = None,
        select: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    ) -> None:
        DataStreamReader.__init__(self, spark)
        self._malformed = malformed
        self.reads = SourceReads(skips_temporary=skips_temporary)
        self._limit, self._offsets, self._bounded = limit, offsets, bounded
        self._holds_event_time, self._select = holds_event_time, select
        self._limits_hold = False
        self.before_load = self._apply_limit
        self.name(uid)

    def hold_limits(self) -> None:
        """Ignore limits for micro-batches that the user's function sets after this call.

        Call this if a request has changed the source's limits while the job ran. A limit of the function would replace
        the requested limit. Spark would refuse a limit of bytes together with a limit of files.
        """
        self._limits_hold = True

    def option(self, key: str, value: Any) -> Any:
        return self if self._limits_hold and key.lower() in FILE_LIMITS else super().option(key, value)

    def _apply_limit(self) -> None:
        if self.reads.is_file and not any(key.lower() == "maxfileage" for key in self.reads.options):
            # not recorded as an option of the source, because recorded options are used to list the files again
            DataStreamReader.option(self, "maxFileAge", NEVER_FORGOTTEN)
        if self._limit is not None and self.reads.is_file and not self.reads.limits_itself():
            self.option("maxBytesPerTrigger", self._limit)
        if self._bounded and self.reads.is_kafka and not self.reads.limits_itself():
            DataStreamReader.option(self, "maxOffsetsPerTrigger", DEFAULT_LIMIT)

    def _held(self) -> dict[str, str]:
        held = super()._held()
        if not (self._bounded and self.reads.is_kafka):
            return held
        if self._offsets is not None:
            return self._offsets.reader_options(streaming=True)
        # Spark's own default for a stream is "latest": a bounded source would end at once, with nothing
        plain = {key: value for key, value in held.items() if not key.lower().startswith("ending")}
        return {"startingOffsets": "earliest", **plain}

    def _read(self, path: Any) -> DataFrame:
        """Return the rows of the files that the source must read, so that other files' malformed rows do not count."""
        frame = super()._read(path)
        return self._select(frame) if self.reads.is_file else frame

    def _load(self, path: Any) -> DataFrame:
        frame = super()._load(path)
        if self._offsets is not None and self.reads.is_kafka:
            frame = only_frozen(frame, self._offsets)
        return self._held_back(frame)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - Spark's own name
        return self._held_back(super().table(tableName))

    def _held_back(self, frame: DataFrame) -> DataFrame:
        return hold_event_time(frame) if self._holds_event_time else frame


class BatchReader(_Recording, DataFrameReader):  # type: ignore[misc]
    """Reader of a source in batch mode.

    Args:
        frozen: URIs of the frozen files, which are read instead of the folder (R11); None if the list is not frozen.
        offsets: frozen end of a bounded Kafka source; None if it is not frozen.
    """

    def __init__(
        self,
        spark: SparkSession,
        frozen: Sequence[str] | None = None,
        offsets: FrozenOffsets | None = None,
        *,
        skips_temporary: bool = True,
        malformed: MalformedRule | None = None,
    ) -> None:
        DataFrameReader.__init__(self, spark)
        self._malformed = malformed
        self.reads = SourceReads(skips_temporary=skips_temporary)
        self._frozen, self._offsets = frozen, offsets
        self.before_load = lambda: None

    def name(self, source_name: str) -> BatchReader:
        return self

    def _held(self) -> dict[str, str]:
        held = super()._held()
        if not self.reads.is_kafka:
            return held
        if self._offsets is not None:
            return self._offsets.reader_options(streaming=False)
        # nothing is read before the end is frozen, and freezing reports a wrong range by name
        return {key: value for key, value in held.items() if key.lower() in SELECTING}

    def _load(self, path: Any) -> DataFrame:
        files = self._frozen if self.reads.is_file else None
        if files is None:
            return super()._load(path)
        if not files:
            return super()._load(path).where("false")  # frozen while it was empty: later files are not read
        partitioned = any("=" in file.rpartition("/")[0] for file in files)
        has_base_path = any(key.lower() == "basepath" for key in self.reads.options)
        if partitioned and not has_base_path and len(self.reads.paths) == 1:
            super().option("basePath", self._base(self.reads.paths[0]))
        # a file may have brackets in its name (Spark's own switch for that, __globPaths__, repeats files)
        return super()._load([escaped_glob(file) for file in files])

    def _base(self, path: str) -> str:
        """Return the part of ``path`` before its first glob. Folders ``column=value`` below it give columns."""
        plain: list[str] = []
        for part in path.split("/"):
            if any(c in part for c in "*?[{"):
                break
            plain.append(part)
        return "/".join(plain) or posixpath.sep


class SplitReader(_Checked, DataFrameReader):
    """Reader for the function of a source with splits: Spark's batch reader, with the checks of :class:`_Checked`."""

    def __init__(self, spark: SparkSession, malformed: MalformedRule | None = None) -> None:
        DataFrameReader.__init__(self, spark)
        self._malformed = malformed
        self.reads = SourceReads()

    def csv(self, path: Any, *positional: Any, **options: Any) -> DataFrame:
        if not isinstance(path, (str, list)):
            return super().csv(path, *positional, **options)
        return self._file("csv", DataFrameReader.csv, path, positional, options)

    def json(self, path: Any, *positional: Any, **options: Any) -> DataFrame:
        if not isinstance(path, (str, list)):
            return super().json(path, *positional, **options)
        return self._file("json", DataFrameReader.json, path, positional, options)

    def _file(
        self, form: str, method: Callable[..., Any], path: Any, positional: Sequence[Any], options: Mapping[str, Any]
    ) -> DataFrame:
        """Load what Spark's ``method`` (``csv`` or ``json``) would load, with its arguments set as options.

        The arguments for path and schema are no options.
        """
        arguments = inspect.signature(method).bind(self, path, *positional, **options).arguments
        named = {key: value for key, value in arguments.items() if key not in ("self", "path") and value is not None}
        return self.load(path, form, **named)
