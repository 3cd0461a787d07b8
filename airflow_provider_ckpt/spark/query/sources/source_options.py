"""Checks for reader options and Spark settings with which rows would silently be lost or repeated."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.spark.errors import UnfitSettingError
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads

_TRUE = ("ignoremissingfiles", "ignorecorruptfiles", "filenameonly")
_WHY = {
    "ignoremissingfiles": "the rows of a file that vanishes would be left out silently",
    "ignorecorruptfiles": "the rows of a file that cannot be read would be left out silently",
    "filenameonly": "of two files of one name in two folders only one would be read",
    "failondataloss": "rows that are deleted before they are read would be left out silently",
    "maxfileage": "files of the bounded source that are older than that would never be read",
    "latestfirst": "rows of the older files would come late, and be dropped",
    "modifiedbefore": "a streaming source cannot filter files by their time",
    "modifiedafter": "a streaming source cannot filter files by their time",
}
_SETTINGS = {
    "spark.sql.files.ignoremissingfiles": ("true", _WHY["ignoremissingfiles"]),
    "spark.sql.files.ignorecorruptfiles": ("true", _WHY["ignorecorruptfiles"]),
    "spark.sql.files.ignoreinvalidpartitionpaths": ("true", "folders that are no partitions would be left out"),
    "spark.sql.orc.ignorecorruptfiles": ("true", _WHY["ignorecorruptfiles"]),
    "spark.sql.streaming.unsupportedoperationcheck": ("false", "queries that give wrong results would be run"),
    "spark.sql.streaming.statefuloperator.checkcorrectness.enabled": (
        "false",
        "queries that drop rows between two stateful operators would be run",
    ),
    "spark.sql.sources.partitioncolumntypeinference.enabled": (
        "true",
        "a new folder would change the type of a column, and the job could not resume. The values in the names of "
        "folders are text, unless the schema of the source has the column in another type",
    ),
    # Spark would keep only the state of the running batch, but a killed driver resumes after the batch before it
    "spark.sql.streaming.minbatchestoretain": ("1", "a driver that is killed may find its state deleted by Spark"),
}
_MODES = ("asyncprogresstracking", "continuous", "realtimemode")
_ASYNC = "batches would not end at a point that a checkpoint can name"


def refuse_options(operator: Operator, options: Mapping[str, str], *, streaming: bool, watermark: bool) -> None:
    """Refuse reader options with which rows would silently be lost. ``options``: name -> value.

    ``watermark``: True if the source has a watermark, so that rows of older files may be late.

    Raises UnfitSourceError.
    """
    for key, value in options.items():
        name, setting = key.lower(), value.strip().lower()
        refused = (
            (name in _TRUE and setting == "true")
            or (name == "failondataloss" and setting == "false")
            or (streaming and name == "maxfileage" and operator.bounded)
            or (streaming and name == "latestfirst" and setting == "true" and (operator.bounded or watermark))
            or (streaming and name in ("modifiedbefore", "modifiedafter"))
        )
        if refused:
            raise UnfitSourceError(
                "source {uid!r} ({location}) has the option {key}={value}: {why}; leave it out",
                uid=operator.uid,
                location=operator.location,
                key=key,
                value=value,
                why=_WHY[name],
            )


def refuse_endless(operator: Operator, reads: SourceReads, *, streaming: bool) -> None:
    """Refuse a bounded source of a streaming job whose end would differ at each start (R11).

    A source that declares ``ends`` is allowed. But ``ends`` itself is refused for a source whose end can be frozen.

    Raises UnfitSourceError.
    """
    if not (streaming and operator.bounded):
        return
    shown = {"uid": operator.uid, "location": operator.location, "format": reads.format}
    if operator.ends is None and not reads.has_end:
        raise UnfitSourceError(
            "bounded source {uid!r} ({location}) reads {format!r}, whose end cannot be known before it is read: a "
            "retry would take a later end than the first try. If that is acceptable, declare it: "
            '@job.source(bounded=True, ends="available_now"). Otherwise read it by splits, or in batch mode',
            **shown,
        )
    if operator.ends is not None and reads.has_end:
        raise UnfitSourceError(
            "bounded source {uid!r} ({location}) has ends={ends!r} and reads {format!r}, whose end is frozen when the "
            "job first starts: leave it out",
            **shown,
            ends=operator.ends,
        )


def refuse_settings(conf: Mapping[str, str]) -> None:
    """Refuse Spark settings with which rows would be lost or wrong. ``conf``: settings of session and spark-submit.

    Raises UnfitSettingError.
    """
    for key, value in conf.items():
        wrong, why = _SETTINGS.get(key.lower(), ("", ""))
        if wrong and str(value).strip().lower() == wrong:
            raise UnfitSettingError(key=key, value=value, why=why)
        name = key.lower().removeprefix("spark.sql.streaming.")
        if name != key.lower() and name.startswith(_MODES):
            raise UnfitSettingError(key=key, value=value, why=_ASYNC)
