"""Jars that Flink needs for Parquet and that PyFlink does not contain."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pyspark

from bench.table_race import driver_jar


@functools.cache
def version(python: str) -> str:
    """Return the version of apache-flink in that Python.

    Raises CalledProcessError, OSError.
    """
    command = [python, "-c", "from pyflink.version import __version__; print(__version__)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@functools.cache
def classpath(python: str) -> str:
    """Return the class path of Flink's Parquet format and of the Hadoop classes that it needs.

    The format is fetched from Maven Central once (with mvn). The Hadoop classes are those of Spark.

    Raises CalledProcessError, OSError.
    """
    jar = driver_jar(f"org.apache.flink:flink-sql-parquet:{version(python)}")
    hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    return ":".join(map(str, [jar, *hadoop]))
