"""What PyFlink does not bring with it and reading Parquet needs."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pyspark

from bench.table_race import driver_jar


@functools.cache
def version(python: str) -> str:
    """Of the apache-flink of that Python. Raises CalledProcessError, OSError."""
    command = [python, "-c", "from pyflink.version import __version__; print(__version__)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@functools.cache
def classpath(python: str) -> str:
    """Flink's Parquet format (of Maven Central, fetched once with mvn), and the classes of Hadoop that it needs, which
    are Spark's. Raises CalledProcessError, OSError."""
    jar = driver_jar(f"org.apache.flink:flink-sql-parquet:{version(python)}")
    hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    return ":".join(map(str, [jar, *hadoop]))
