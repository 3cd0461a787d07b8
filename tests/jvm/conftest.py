from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_ckpt.jvm.class_archive import ClassArchive, class_archive


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    """Create fake installations of Java and Spark from files. Return the variables that name them."""
    java, spark = tmp_path / "java", tmp_path / "spark"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch(mode=0o755)
    (java / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_RUNTIME_VERSION="17.0.15+6"\nJAVA_VERSION="17.0.15"\n')
    (spark / "jars").mkdir(parents=True)
    (spark / "bin").mkdir()
    (spark / "jars" / "spark-core_2.13-4.2.0.jar").write_text("core")
    submits(spark, 0)
    cache = tmp_path / "cache"
    return {"JAVA_HOME": str(java), "SPARK_HOME": str(spark), "CKPT_CLASS_ARCHIVE": str(cache)}


def submits(spark: Path, code: int) -> None:
    """Install a fake spark-submit with the exit code of the JVM that tries the archive."""
    submit = spark / "bin" / "spark-submit"
    submit.write_text(f"#!/bin/sh\necho of the JVM\nexit {code}\n")
    submit.chmod(0o755)


@pytest.fixture
def archive(environ: Mapping[str, str]) -> ClassArchive:
    found = class_archive(environ)
    assert found is not None
    return found


def write_archive(path: Path) -> None:
    """Write an archive instead of a JVM."""
    path.write_text("classes")
