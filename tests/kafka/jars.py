"""A Kafka broker, and Spark's connector, from Maven Central.

The connector links to ``spark-token-provider-kafka-0-10``, which not every mirror of Maven Central has. That package
only handles delegation tokens, and no test uses any. ``standins/`` has classes of the same names and signatures,
written for these tests. They pass on settings unchanged and refuse tokens. They are for tests only: a user's Spark has
the real classes, and both must never be on one class path.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

KAFKA = "3.9.2"
"""Version of the Kafka client that Spark 4.2's connector is built with. Brokers from 2.x to 4.x accept it."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>{name}</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_STANDINS = Path(__file__).parent / "standins"


def broker_jars() -> Path:
    """Return the folder of a broker with all its jars (46 MB, downloaded once)."""
    return _downloaded(f"kafka-{KAFKA}", _DEPENDENCY.format("org.apache.kafka", "kafka_2.13", KAFKA, ""))


@functools.cache
def connector_jars() -> tuple[Path, ...]:
    """Return Spark's connector, with the stand-ins instead of the token provider."""
    import pyspark

    wanted = (
        _DEPENDENCY.format("org.apache.spark", "spark-sql-kafka-0-10_2.13", pyspark.__version__, _ALONE)
        + _DEPENDENCY.format("org.apache.kafka", "kafka-clients", KAFKA, _ALONE)
        + _DEPENDENCY.format("org.apache.commons", "commons-pool2", "2.13.1", "")
    )
    folder = _downloaded(f"spark-kafka-{pyspark.__version__}", wanted)
    _build_standins(folder / "standins.jar")
    return tuple(sorted(folder.glob("*.jar")))


def _cache() -> Path:
    """Return the cache folder. ``CKPT_KAFKA_JARS`` overrides it."""
    return Path(os.environ.get("CKPT_KAFKA_JARS") or Path.home() / ".cache" / "airflow-provider-ckpt" / "jars")


def _downloaded(name: str, dependencies: str) -> Path:
    folder = _cache() / name
    complete = folder / "complete"
    if complete.exists():
        return folder
    _needed("mvn")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM.format(name=name, dependencies=dependencies))
    command = [
        "mvn",
        "-q",
        "-B",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={folder}",
    ]
    done = subprocess.run(command, cwd=folder, timeout=900, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"Maven cannot get {name}: {(done.stdout + done.stderr)[-300:]}")
    complete.touch()
    return folder


def _build_standins(jar: Path) -> None:
    if jar.exists():
        return
    _needed("javac")
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    classes = jar.with_suffix("")
    sources = [str(source) for source in sorted(_STANDINS.rglob("*.java"))]
    path = str(Path(spec.origin).parent / "jars" / "*")
    subprocess.run(
        ["javac", "-nowarn", "-Xlint:none", "--release", "17", "-cp", path, "-d", classes, *sources], check=True
    )
    made = jar.with_suffix(".tmp")
    subprocess.run(["jar", "--create", "--file", made, "-C", classes, "."], check=True)
    made.rename(jar)


def _needed(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"no {program}: Debian has it in maven and default-jdk-headless")
