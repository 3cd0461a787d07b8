"""The settings of a sink that releases to a table, and the check that its library is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal, get_args

from airflow_provider_ckpt.sinks.argument_checks import names_problem, options_problem
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, MissingPackageError
from airflow_provider_ckpt.sinks.lake.intents import Change

LakeMode = Literal["append", "overwrite", "upsert"]
_OWN_OPTIONS = {"path", "partitionoverwritemode"}


@dataclass(frozen=True)
class LakeSettings:
    """The settings of a lake sink. ``partition_by``: the table's partition columns; None accepts any."""

    mode: LakeMode = "append"
    key: Sequence[str] = ()
    partition_by: Sequence[str] | None = ()
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def first_change(self) -> Change:
        return "replace" if self.mode == "overwrite" else self.later_change

    @property
    def later_change(self) -> Change:
        return "upsert" if self.mode == "upsert" else "append"

    def partition_misfit(self, table_partitions: Sequence[str]) -> str | None:
        if self.partition_by is None or list(self.partition_by) == list(table_partitions):
            return None
        return f"it is partitioned by {list(table_partitions)}, and the sink by {list(self.partition_by)}"

    def validate(self, sink: str) -> None:
        """Refuse settings that cannot work.

        Raises InvalidSinkError.
        """
        if self.mode not in get_args(LakeMode):
            raise _invalid(sink, "mode", self.mode, f"is unknown; use one of {', '.join(get_args(LakeMode))}")
        for setting, names in (("key", self.key), ("partition_by", self.partition_by or ())):
            if problem := names_problem(names):
                raise _invalid(sink, setting, names, problem)
            if any(not isinstance(name, str) or not name for name in names):
                raise _invalid(sink, setting, list(names), "has an item that is no name of a column")
            if len({name.lower() for name in names}) < len(names):
                raise _invalid(sink, setting, list(names), "names a column twice")
        if self.mode == "upsert" and not self.key:
            raise _invalid(sink, "key", list(self.key), "is needed with mode='upsert'; give the columns of the key")
        if self.mode != "upsert" and self.key:
            raise _invalid(
                sink, "key", list(self.key), "has a meaning with mode='upsert' only; set that mode or leave it out"
            )
        if self.mode == "upsert" and self.partition_by:
            reason = "cannot be combined with mode='upsert'; leave it out: the table may be partitioned all the same"
            raise _invalid(sink, "partition_by", list(self.partition_by), reason)
        if problem := options_problem(self.options):
            raise _invalid(sink, "options", "…", problem)
        for option in self.options:
            if option.lower() in _OWN_OPTIONS or option.startswith(
                ("mapreduce.fileoutputcommitter.", "parquet.encryption.")
            ):
                raise _invalid(sink, "options", option, "cannot be set for a table; remove it")


def _invalid(sink: str, setting: str, value: object, reason: str) -> InvalidSinkError:
    return InvalidSinkError(sink=sink, setting=setting, value=value, reason=reason)


def refuse_missing(sink: str, package: str, extra: str) -> None:
    """Refuse a sink whose library is not installed.

    Raises MissingPackageError.
    """
    if find_spec(package) is None:
        raise MissingPackageError(
            "{sink} needs the package {package}, which is not installed here: pip install "
            "'airflow-provider-ckpt[{extra}]' on every machine that runs or releases the job",
            sink=sink,
            package=package,
            extra=extra,
        )
