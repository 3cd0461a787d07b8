"""Spark settings and time zones that change the values of rows. Each run of a job uses its first run's settings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

PYTHON_ZONE = "TZ"
"""Key of Python's time zone, in the driver and in the Python workers."""
JVM_ZONE = "user.timezone"
"""Key of the time zone of the driver's JVM."""
SETTINGS = (
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.ansi.enabled",
    "spark.sql.avro.datetimeRebaseModeInRead",
    "spark.sql.avro.datetimeRebaseModeInWrite",
    "spark.sql.caseSensitive",
    "spark.sql.charAsVarchar",
    "spark.sql.chunkBase64String.enabled",
    "spark.sql.columnNameOfCorruptRecord",
    "spark.sql.csv.parser.columnPruning.enabled",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pandas.inferPandasDictAsMap",
    "spark.sql.execution.pandas.structHandlingMode",
    "spark.sql.execution.pyspark.binaryAsBytes",
    "spark.sql.execution.pythonUDF.arrow.enabled",
    "spark.sql.execution.pythonUDTF.arrow.enabled",
    "spark.sql.function.concatBinaryAsString",
    "spark.sql.function.eltOutputAsString",
    "spark.sql.groupByAliases",
    "spark.sql.groupByOrdinal",
    "spark.sql.json.enableExactStringParsing",
    "spark.sql.json.enablePartialResults",
    "spark.sql.jsonGenerator.ignoreNullFields",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.orderByOrdinal",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.fieldId.read.ignoreMissing",
    "spark.sql.parquet.inferTimestampNTZ.enabled",
    "spark.sql.parquet.int96AsTimestamp",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInWrite",
    "spark.sql.parquet.int96TimestampConversion",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.parser.quotedRegexColumnNames",
    "spark.sql.pyspark.inferNestedDictAsStruct.enabled",
    "spark.sql.readSideCharPadding",
    "spark.sql.retainGroupColumns",
    "spark.sql.session.timeZone",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.timestampType",
    "spark.sql.variant.allowDuplicateKeys",
)
"""Settings that change the values of expressions, readers, Python functions and files.

The list has all such settings that a user may set. Collation and the order of nulls are parts of expressions.
"""
PREFIXES = ("spark.sql.legacy.",)
"""Prefixes of further value-changing settings. They are recorded only if the user sets them for the first run."""
_OF_WORKERS = "spark.executorEnv.TZ"


@dataclass(frozen=True)
class KeptSettings:
    """Value-changing settings in use. ``ignored``: setting -> (value that was set for this run, value in use)."""

    values: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def notices(self) -> Iterator[str]:
        for key, (value, used) in self.ignored.items():
            shown = {PYTHON_ZONE: f"the time zone {value} of this process", JVM_ZONE: f"the JVM's time zone {value}"}
            yield (
                f"{shown.get(key, f'{key}={value}')} has no effect: the job has {used} since its first run, and "
                "another value would change what its rows mean. To change it on purpose, give this run --new-settings"
            )


def keep_settings(spark: SparkSession, conf: Mapping[str, str], recorded: Mapping[str, str]) -> KeptSettings:
    """Apply the settings of the job's first run to the session, and return them.

    The first run returns its current settings.

    Args:
        recorded: the settings of the first run; empty in the first run. Only value-changing settings are used, because
            a forged journal could name a class that Spark loads, or another file system.
    """
    recorded = {key: value for key, value in recorded.items() if _is_kept(key) or key in (PYTHON_ZONE, JVM_ZONE)}
    current = _set_values(spark, conf)
    ignored = dict[str, tuple[str, str]]()
    for key, value in current.items() if recorded else ():
        recorded_value = recorded.get(key, "Spark's default")
        if recorded_value.lower() != value.lower():
            ignored[key] = value, recorded_value
    for key in filter(spark.conf.isModifiable, ignored.keys() - recorded.keys()):
        spark.conf.unset(key)
    for key, value in recorded.items():
        _set(spark, key, value)
    values = dict(recorded) or _values_in_use(spark, current)
    _set_python_zone(spark, values[PYTHON_ZONE])
    return KeptSettings(values, ignored)


def _is_kept(key: str) -> bool:
    return key in SETTINGS or key.startswith(PREFIXES)


def _set_values(spark: SparkSession, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the value-changing settings that the user has set for this run."""
    conf_of_session = {**dict(spark.sparkContext.getConf().getAll()), **conf}
    settings = {key: str(value) for key, value in conf_of_session.items() if _is_kept(key)}
    zone = conf_of_session.get(_OF_WORKERS) or os.environ.get("TZ")
    if zone:
        settings[PYTHON_ZONE] = zone.lstrip(":")
    if JVM_ZONE in conf_of_session.get("spark.driver.extraJavaOptions", ""):
        settings[JVM_ZONE] = _jvm_zone(spark)
    return settings


def _values_in_use(spark: SparkSession, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a first run. Spark's defaults are included, because another version may change them."""
    values = {key: value for key, value in given.items() if key.startswith(PREFIXES)}
    for key in SETTINGS:
        with suppress(PySparkException):  # not in this version of Spark
            values[key] = str(spark.conf.get(key))
    zone = _jvm_zone(spark)
    return {**values, PYTHON_ZONE: given.get(PYTHON_ZONE) or _zone_of_host() or zone, JVM_ZONE: zone}


def _set(spark: SparkSession, key: str, value: str) -> None:
    if key == JVM_ZONE:
        zones: Any = spark.sparkContext._jvm
        zone = zones.java.util.TimeZone.getTimeZone(value)
        if zone.getID() != _jvm_zone(spark):
            zones.java.util.TimeZone.setDefault(zone)
    elif key != PYTHON_ZONE and spark.conf.isModifiable(key) and str(spark.conf.get(key)) != value:
        spark.conf.set(key, value)  # only a changed value, because Spark warns at each call for a deprecated setting


def _set_python_zone(spark: SparkSession, zone: str) -> None:
    """Set the time zone of this process, and of Python workers that start later."""
    spark.sparkContext.environment[PYTHON_ZONE] = zone
    if zone != (os.environ.get("TZ") or _zone_of_host()):
        os.environ["TZ"] = zone
        time.tzset()


def _jvm_zone(spark: SparkSession) -> str:
    jvm: Any = spark.sparkContext._jvm
    return str(jvm.java.util.TimeZone.getDefault().getID())


def _zone_of_host() -> str | None:
    """Return the name of the host's time zone; None if the host does not name it."""
    _, _, name = os.path.realpath("/etc/localtime").partition("/zoneinfo/")
    return name or None
