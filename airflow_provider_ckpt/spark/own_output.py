"""A job must not read what it writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.spark.errors import OutputReadError
from airflow_provider_ckpt.spark.query.reader import SourceReads
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.nesting import segments
from airflow_provider_ckpt.storage.redaction import redact_uri


def refuse_own_output(job: Job, reads: Mapping[str, SourceReads], root: Location) -> None:
    """Raises OutputReadError if what a sink writes lies where a source reads. Whether Spark looks into a folder
    depends on its name and on options: no folder of a sink may lie in that of a source."""
    folders = [(one.uid, place) for one in job.sinks for place in one.sink.spark_folders(root.options)]
    for uid, read in reads.items():
        for path in read.paths if read.is_file else ():
            for sink, folder in folders:
                if _meet(segments(path), segments(folder.uri)):
                    raise OutputReadError(source=uid, path=redact_uri(path), sink=sink, folder=folder.for_display())


def _meet(read: list[str], written: list[str]) -> bool:
    """Whether the pattern ``read`` has anything of the folder ``written`` in it."""
    if not all(_matches(part, pattern) for pattern, part in zip(read, written, strict=False)):
        return False
    return len(read) <= len(written) or _is_written(read[len(written)])


def _is_written(pattern: str) -> bool:
    """Whether a sink puts something directly into its folder that the pattern is for: a file, a partition folder."""
    return "=" in pattern or _matches("part-0.parquet", pattern) or _matches("column=value", pattern)


def _matches(part: str, pattern: str) -> bool:
    return any(part == one or fnmatchcase(part, one) for one in _alternatives(pattern))


def _alternatives(pattern: str) -> Iterator[str]:
    """``a{b,c}`` -> ab, ac: Hadoop's patterns have them, Python's do not."""
    before, brace, rest = pattern.partition("{")
    inside, closing, after = rest.partition("}")
    if not brace or not closing:
        yield pattern
        return
    for one in inside.split(","):
        yield from _alternatives(before + one + after)
