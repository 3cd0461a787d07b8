from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_ckpt.jvm import class_archive as launched
from airflow_provider_ckpt.jvm.class_archive import ClassArchive, class_archive

TRAINING = """
import os, re, sys
path = re.search('ArchiveClassesAtExit=(.*?)"', os.environ["SPARK_SUBMIT_OPTS"])[1]
open(path, "w").write("classes")
"""


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
    write_submit(spark, "exit 0")
    return {"JAVA_HOME": str(java), "SPARK_HOME": str(spark), "CKPT_CLASS_ARCHIVE": str(tmp_path / "cache")}


def write_submit(spark: Path, script: str) -> None:
    """Install a fake spark-submit, which tries an archive."""
    submit = spark / "bin" / "spark-submit"
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)


@pytest.fixture
def archive(environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """Return the archive of the fake installations. A program without Spark writes it."""
    train(monkeypatch, TRAINING)
    archive = class_archive(environ)
    assert archive is not None
    return archive


def train(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Replace the program whose JVM writes an archive."""
    monkeypatch.setattr(launched, "TRAINING", [sys.executable, "-c", code])
