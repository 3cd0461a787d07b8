"""A sink that releases each checkpoint to a folder, as Parquet, JSON, CSV or ORC files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

from airflow_provider_ckpt.sinks.argument_checks import names_problem, options_problem
from airflow_provider_ckpt.sinks.errors import InvalidSinkError
from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders, places_of
from airflow_provider_ckpt.sinks.file.file_writer import FileWriter, Format
from airflow_provider_ckpt.sinks.file.occupancy import Mode
from airflow_provider_ckpt.sinks.file.row_checks import check_file_input
from airflow_provider_ckpt.sinks.sink import Sink, SinkContext, SinkInput
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import canonical_uri
from airflow_provider_ckpt.storage.storage import Storage

_FORMATS = ("parquet", "json", "csv", "orc")
_OWN_OPTIONS = {"path", "partitionoverwritemode"}
COMPRESSION = "compression"


@dataclass(frozen=True)
class FileSink(Sink):
    """A sink that writes files to a folder through Spark's writers.

    In output mode ``update`` every batch appends the changed rows once more, in ``complete`` all rows, because a folder
    has no keys. Aggregate over the newest rows, or use a sink with keys. The releases of one job add up in every
    ``mode``, also after a stop or a crash. If each day has a job of its own, give each day its own path.

    Args:
        path: the folder, as a path or any fsspec URI (``s3://…``). A relative path is resolved against the working
            directory of the process that binds the sink. Use an absolute path if several processes bind it.
        partition_by: columns whose values become folders.
        options: options of Spark's writer (``header``, ``compression`` …).
        storage_options: fsspec options of the folder; None means those of the job's root. Spark reaches the same folder
            with its own Hadoop configuration, which on S3 is completed from these options.
        mode: how a new job treats the releases of other jobs in the folder. ``errorifexists`` refuses such a folder.
            ``append`` adds the job's files. ``overwrite`` replaces the other jobs' files in the job's first release,
            and never deletes a file that no job released.

    File names contain job and sink, and each sink has its own manifests. Layout::

        <path>/[<column>=<value>/…]part-<job>-<sink>-<batch>-<nonce>-<number>.<extension>   released
        <books>/<job>/<sink>/staging/<attempt>-<batch>-<nonce>/…                          staged
        <books>/<job>/<sink>/manifests/00000000.json …                                    what was released
        <books>/~owners/00000000.json …                                                    order of the first releases

    ``<books>`` is the folder ``_ckpt-<name>`` next to the table, see :mod:`~.file_folders`.
    """

    path: str
    format: Format = "parquet"
    partition_by: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    mode: Mode = "errorifexists"

    changeable: ClassVar[frozenset[str]] = frozenset({COMPRESSION, "mode"})
    """Settings that may change when a job resumes. A mode has an effect only until the first release."""

    def validate(self) -> None:
        if not isinstance(self.path, str) or not self.path.strip():
            raise self._invalid("path", self.path, "is no text; give the folder to write to, as a path or a URI")
        places_of(self.path)
        if self.format not in _FORMATS:
            raise self._invalid("format", self.format, f"is unknown; use one of {', '.join(_FORMATS)}")
        if self.mode not in get_args(Mode):
            raise self._invalid("mode", self.mode, f"is unknown; use one of {', '.join(get_args(Mode))}")
        if problem := names_problem(self.partition_by):
            raise self._invalid("partition_by", self.partition_by, problem)
        columns = list(self.partition_by)
        for column in columns:
            if not isinstance(column, str) or not column or column.startswith("."):
                raise self._invalid("partition_by", columns, f"has {column!r}: no reader sees such a folder")
        if len({column.lower() for column in columns}) < len(columns):
            raise self._invalid("partition_by", columns, "names a column twice")
        if problem := options_problem(self.options):
            raise self._invalid("options", "…", problem)
        if self.storage_options is not None and not isinstance(self.storage_options, Mapping):
            raise self._invalid("storage_options", "…", "is no dict of options by name")
        for option in self.options:
            if option.lower() in _OWN_OPTIONS or option.startswith("mapreduce.fileoutputcommitter."):
                raise self._invalid("options", option, "is set by the sink itself; remove it")

    def _invalid(self, setting: str, value: object, reason: str) -> InvalidSinkError:
        return InvalidSinkError(sink="FileSink", setting=setting, value=value, reason=reason)

    def definition(self) -> dict[str, Any]:
        return {
            **super().definition(),
            "path": canonical_uri(self.path),
            "format": self.format,
            "partition_by": list(self.partition_by),
            "mode": self.mode,
            **shape_of(self.format, self.options),
        }

    def folder_conflicts(self, other: Sink) -> list[str]:
        if not isinstance(other, FileSink):
            return ["type"]
        own_definition, other_definition = self.definition(), other.definition()
        keys = (own_definition.keys() | other_definition.keys()) - {"type", "path"} - self.changeable
        return sorted(key for key in keys if own_definition.get(key) != other_definition.get(key))

    def check_input(self, given: SinkInput) -> None:
        check_file_input(given, self.format, self.partition_by)

    def bind(self, context: SinkContext) -> BoundFileSink:
        self.validate()
        [folder] = self.spark_folders(context.storage_options)
        return self.bind_to(FileFolders.open(folder).parent, context)

    def spark_folders(self, storage_options: Mapping[str, Any]) -> list[Location]:
        return [Location(self.path, storage_options if self.storage_options is None else self.storage_options)]

    def bind_to(self, parent: Storage, context: SinkContext) -> BoundFileSink:
        """Bind the sink like :meth:`bind`. ``parent``: the opened storage of the table's parent folder."""
        folders = FileFolders(parent, places_of(self.path))
        return BoundFileSink(FileWriter(self.format, self.partition_by, self.options), context, folders, self.mode)


_ALIASES = {"delimiter": "sep", "charset": "encoding", "codec": "compression", "orc.compress": "compression"}
_DATES = {"dateformat": None, "timestampformat": None, "timestampntzformat": None, "timezone": None, "locale": None}
_READ_BY: dict[str, dict[str, str | None]] = {
    # Option -> Spark's default, if that is a single text. Giving the default equals omitting the option.
    "csv": {
        **_DATES,
        "header": "false",
        "sep": ",",
        "quote": '"',
        "escape": "\\",
        "chartoescapequoteescaping": None,
        "comment": None,
        "encoding": "UTF-8",
        "linesep": "\n",
        "nullvalue": "",
        "emptyvalue": '""',
    },
    "json": {**_DATES, "encoding": "UTF-8", "linesep": "\n", "pretty": "false"},
}


def shape_of(file_format: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that change how files must be read, as ``option.<name in lower case>``, and ``compression``.

    An option at Spark's default is omitted. All other options are omitted, too, because they may be secrets.
    """
    normalized = {_ALIASES.get(name.lower(), name.lower()): _text(value) for name, value in _canonical_last(options)}
    defaults = _READ_BY.get(file_format, {})
    changed = [name for name in sorted(defaults) if normalized.get(name, defaults[name]) != defaults[name]]
    shape = {f"option.{name}": normalized[name] for name in changed}
    if COMPRESSION in normalized:
        shape[COMPRESSION] = normalized[COMPRESSION].lower()
    return shape


def _canonical_last(options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Sort the options so that an option follows its alias, because Spark prefers the option when both are given."""
    return sorted(options.items(), key=lambda item: item[0].lower() not in _ALIASES)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or str(value).lower() in ("true", "false") else str(value)
