"""Files that a bounded and a live source of a job would both read, because the two sources share a folder."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import combinations, permutations, product
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import Column

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.sources.frozen_files import FrozenFiles, list_files
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.nesting import segments
from airflow_provider_ckpt.storage.redaction import redact_uri

_LOCAL = re.compile("^file:/+")
_STORE = re.compile(r"((?:[A-Za-z][\w+.-]*:)?(?://[^/]*)?)(.*)", re.DOTALL)


def followers(operators: Mapping[str, Operator]) -> dict[str, str]:
    """Return bounded source -> the live source whose ``after`` names it, and which leaves out its files."""
    return {operator.after: operator.uid for operator in operators.values() if operator.after is not None}


def only_files(frame: DataFrame, files: Collection[str]) -> DataFrame:
    """Return the rows of ``frame`` that come from ``files``. Spark does not open any other file."""
    return frame.where(_is_in(frame, files)) if files else frame.where("false")


def without_files(frame: DataFrame, files: Collection[str]) -> DataFrame:
    """Return the rows of ``frame`` that do not come from ``files``. Spark does not open ``files``."""
    return frame.where(~_is_in(frame, files)) if files else frame


def choice_of(
    operator: Operator, ends: Mapping[str, FrozenEnd], followed: Collection[str]
) -> Callable[[DataFrame], DataFrame]:
    """Return a function that removes the rows of other sources' files from a frame of ``operator``.

    For a live source with ``after``, it removes rows of the bounded source's frozen files. For a bounded source in
    ``followed``, it keeps only rows of its frozen files. For other sources, and without a frozen list, it keeps all.

    Args:
        ends: bounded source -> its frozen end.
        followed: bounded sources whose files a live source leaves out.
    """
    end = ends.get(operator.uid if operator.bounded else operator.after or "")
    if isinstance(end, FrozenFiles) and operator.after is not None:
        return lambda frame: without_files(frame, end.files)
    if isinstance(end, FrozenFiles) and operator.uid in followed:
        return lambda frame: only_files(frame, end.files)
    return lambda frame: frame


def metadata_path(uri: str) -> str:
    """Return ``_metadata.file_path`` of a file, as Spark spells it. ``uri``: the file's URI without escapes.

    Spark escapes the same characters as Java's URI: ASCII that no path may have, other blanks, and control characters.
    """
    store, path = _STORE.fullmatch(_LOCAL.sub("file:/", uri)).groups()  # type: ignore[union-attr]
    return store + "".join(character if _stays(character) else quote(character, safe="") for character in path)


def _stays(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in "_-!.~'()*,;:$&+=@/"
    return unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc")


def _is_in(frame: DataFrame, files: Collection[str]) -> Column:
    """Return a column that is True for rows that come from ``files``.

    All names go to the JVM as one text, because one call of the JVM for each file would take minutes.
    """
    util: Any = frame.sparkSession._jvm.java.util  # type: ignore[union-attr]
    names = util.Collections.list(util.StringTokenizer("\0".join(map(metadata_path, files)), "\0"))
    path: Any = frame.metadataColumn("_metadata").getField("file_path")
    return Column(path._jc.isInCollection(names))


def refuse_shared_files(spark: SparkSession, job: Job, reads: Mapping[str, SourceReads]) -> None:
    """Refuse a bounded and a live source that read the same files if their rows are united, also in a sink's folder.

    They are allowed if the live source is declared with ``reads_again``, or if its ``after`` names the bounded source.

    Raises UnfitSourceError.
    """
    for union, history, live in _united(job.operators):
        pair = reads.get(history.uid), reads.get(live.uid)
        if live.after == history.uid or live.reads_again or None in pair:
            continue
        path = _shared(spark, *pair)  # type: ignore[arg-type]
        if path is not None:
            raise UnfitSourceError(
                "sources {history!r} and {live!r} ({location}) both read {path}, and {union} unites their rows: each "
                "row would come twice. To read the present files as {history!r} and later files as {live!r}, declare "
                "@job.source(after={history}) on {live!r}. If their functions select different rows, set "
                "reads_again=True there",
                history=history.uid,
                live=live.uid,
                location=live.location,
                path=redact_uri(path),
                union=union,
            )


def _united(operators: Mapping[str, Operator]) -> Iterator[tuple[str, Operator, Operator]]:
    """Yield (union, bounded source, live source) for each pair of sources whose rows are united."""
    for union, uids in [*_unions(operators), *_shared_folders(operators)]:
        for first, second in permutations(uids, 2):
            for history, live in product(_sources(operators, first), _sources(operators, second)):
                if history.bounded and not live.bounded:
                    yield union, history, live


def _unions(operators: Mapping[str, Operator]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for operator in operators.values():
        for uids in operator.inputs.values():
            yield repr(operator.uid), uids


def _shared_folders(operators: Mapping[str, Operator]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (phrase for a message, inputs of both sinks) for each pair of sinks that write to the same folder."""
    sinks = [operator for operator in operators.values() if isinstance(operator.sink, FileSink)]
    for first, second in combinations(sinks, 2):
        if segments(first.sink.path) == segments(second.sink.path):
            yield f"the folder of sinks {first.uid!r} and {second.uid!r}", (*first.input_uids, *second.input_uids)


def _sources(operators: Mapping[str, Operator], uid: str) -> list[Operator]:
    """Return the sources whose rows reach operator ``uid``; the operator itself if it is a source."""
    operator = operators[uid]
    if operator.kind == "source":
        return [operator]
    return [source for above in operator.input_uids for source in _sources(operators, above)]


def _shared(spark: SparkSession, history: SourceReads, live: SourceReads) -> str | None:
    """Return a path that both sources declare, or else a file that both list; None if they share no file."""
    if not (history.is_file and live.is_file):
        return None
    common = [path for path in live.paths if segments(path) in [segments(folder) for folder in history.paths]]
    if common:
        return common[0]
    listed = {*list_files(spark, history)} & {*list_files(spark, live)}
    return min(listed, default=None)
