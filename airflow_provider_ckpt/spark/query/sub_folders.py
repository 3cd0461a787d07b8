"""Files in sub-folders of a source's folder, which Spark lists and does not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.spark.query.file_index import index_of
from airflow_provider_ckpt.spark.query.frozen import frame_of_existing, unescaped_path
from airflow_provider_ckpt.spark.query.reader import SourceReads
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from airflow_provider_ckpt.sparkfiles.temporary_names import has_temporary_name
from airflow_provider_ckpt.storage.redaction import redact_uri

_CHOOSE = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter", "recursivefilelookup"})
"""Options that choose files. The user does not want the other files."""
_NAMED = 3


@dataclass(frozen=True)
class LeftBelow:
    """The files that a source leaves out. ``folders``: sorted normal paths of the folders that hold them."""

    count: int
    folders: tuple[str, ...]

    def __str__(self) -> str:
        named = ", ".join(f"/{redact_uri(folder)}" for folder in self.folders[:_NAMED])
        more = f" and {len(self.folders) - _NAMED} more" if len(self.folders) > _NAMED else ""
        return f"{counted(self.count, 'file')} in {named}{more}"


def left_below(spark: SparkSession, reads: SourceReads) -> LeftBelow | None:
    """Return the files that a file source leaves out because they are in a sub-folder; None if there are none."""
    if not reads.is_file or any(key.lower() in _CHOOSE for key in reads.options):
        return None
    frame = frame_of_existing(spark, reads)
    return None if frame is None else _left_by(frame, reads.skips_temporary)


def leaves_out(spark: SparkSession, sources: Mapping[str, SourceReads]) -> Iterator[str]:
    """Yield a warning for each source that leaves out files in sub-folders."""
    for uid, reads in sources.items():
        left = left_below(spark, reads)
        if left is not None:
            yield (
                f"source {uid} leaves out {left}: Spark reads the files of a folder, and not those of the folders in "
                "it. To read them, give the source the option recursiveFileLookup=true"
            )


def _left_by(frame: DataFrame, skips_temporary: bool) -> LeftBelow | None:
    plan: Any = frame._jdf.queryExecution().analyzed()
    index = index_of(plan.collectLeaves().head())
    if index is None or index.leafFiles().size() == index.allFiles().size():
        return None
    read = {normal_path(str(uri)) for uri in index.inputFiles()}
    listed = str(index.leafFiles().keys().mkString("\n")).splitlines()  # one call, as there may be many
    left = [path for path in map(unescaped_path, listed) if path not in read]
    left = [path for path in left if not (skips_temporary and has_temporary_name(path))]
    return LeftBelow(len(left), tuple(sorted({path.rpartition("/")[0] for path in left}))) if left else None
