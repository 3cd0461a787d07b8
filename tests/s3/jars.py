"""Spark's S3 file system in the version of Spark's Hadoop, and Delta's jars, from Maven Central."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>s3</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
</dependency></dependencies>
</project>
"""


def hadoop_version() -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    [jar] = (Path(spec.origin).parent / "jars").glob("hadoop-client-api-*.jar")
    match = re.fullmatch(r"hadoop-client-api-(.+)\.jar", jar.name)
    assert match is not None, jar
    return match[1]


def hadoop_aws() -> Path:
    """Return the folder of hadoop-aws and its dependencies (0.7 GB, downloaded once). ``CKPT_S3_JARS`` is the cache."""
    return _jars("org.apache.hadoop", "hadoop-aws", hadoop_version())


def delta_spark() -> list[Path]:
    """Return Delta's jars for Spark 4.2, without jars that Spark has itself (90 MB, downloaded once)."""
    folder = _jars("io.delta", "delta-spark_4.2_2.13", "4.4.0")
    return sorted(path for path in folder.glob("*.jar") if path.name.startswith(("delta-", "unitycatalog-")))


def _jars(group: str, artifact: str, version: str) -> Path:
    cache = os.environ.get("CKPT_S3_JARS") or str(Path.home() / ".cache" / "airflow-provider-ckpt" / "jars")
    folder = Path(cache) / f"{artifact}-{version}"
    complete = folder / "complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_POM.format(group=group, artifact=artifact, version=version))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        subprocess.run(command, cwd=folder, check=True, timeout=1800, stdin=subprocess.DEVNULL)
        complete.touch()
    return folder
