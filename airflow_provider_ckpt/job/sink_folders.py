"""The check for sinks of one job whose folders overlap. A reader of one folder would read rows of both sinks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.nesting import is_hidden, segments

_TAKEN = ("_ckpt", "_spark_metadata")
"""Hidden folders that no sink may use, because this package or Spark's own sink writes to them."""


def check_sink_folders(sinks: Sequence[Operator]) -> None:
    """Refuse sinks whose folders overlap. Storage options are not compared, because one URI is one store for Spark.

    Raises InvalidJobError if a sink writes inside the folder of another sink. Two sinks may share a folder only with
    the same settings.
    """
    for sink, other in combinations(sinks, 2):
        for folder in sink.sink.spark_folders({}):
            for other_folder in other.sink.spark_folders({}):
                _check(sink, segments(folder.uri), folder, other, segments(other_folder.uri), other_folder)


def _check(
    sink: Operator, parts: list[str], folder: Location, other: Operator, other_parts: list[str], other_folder: Location
) -> None:
    if len(parts) > len(other_parts):
        _check(other, other_parts, other_folder, sink, parts, folder)
        return
    if other_parts[: len(parts)] != parts:
        return
    between = other_parts[len(parts) :]
    if not between:
        _check_shared(sink, other, folder)
    elif between[0] in _TAKEN or not any(map(is_hidden, between)):
        raise InvalidJobError(
            "sink {inner!r} ({inner_location}) writes to {inner_folder}, which is inside {outer_folder}, the folder "
            "of sink {outer!r} ({outer_location}): a reader of that folder would read the rows of both, or fail. "
            "Give each a separate folder, with neither inside the other.",
            inner=other.uid,
            inner_location=other.location,
            inner_folder=other_folder.for_display(),
            outer=sink.uid,
            outer_location=sink.location,
            outer_folder=folder.for_display(),
        )


def _check_shared(sink: Operator, other: Operator, folder: Location) -> None:
    differ = sink.sink.folder_conflicts(other.sink) or other.sink.folder_conflicts(sink.sink)
    if differ:
        raise InvalidJobError(
            "sinks {one!r} ({one_location}) and {other!r} ({other_location}) write to one folder, {folder}, and "
            "differ in {differ}, so the folder could not be read as one table. Give each a folder of its own, or "
            "the same settings.",
            one=sink.uid,
            one_location=sink.location,
            other=other.uid,
            other_location=other.location,
            folder=folder.for_display(),
            differ=", ".join(differ),
        )
