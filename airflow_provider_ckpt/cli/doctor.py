"""``ckpt doctor``, which checks the programs, packages and settings that a job needs."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.jvm.class_archive import class_archive
from airflow_provider_ckpt.jvm.spark_home import pyspark_folder
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import ROOT_MARKER, check_root_of_run, read_root

Verdict = Literal["ok", "note", "problem"]

OLDEST_PYTHON = (3, 10)
OLDEST_JAVA = 17
OLDEST_PYSPARK = (4, 2)
OLDEST_AIRFLOW = (3, 3)


@dataclass(frozen=True)
class Finding:
    """Result of one check. After a ``problem`` no job can run here. A ``note`` affects some uses only."""

    subject: str
    verdict: Verdict
    text: str


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("doctor", help="check Python, Java, Spark, Airflow and the root")
    arguments.add_root(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print a JSON object: ok, and findings with their verdicts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    findings = [check_python(), check_java(), check_pyspark(), check_class_archive(), check_airflow()]
    if args.root is not None:
        findings.append(try_root(args))
    is_sound = all(finding.verdict != "problem" for finding in findings)
    if args.json:
        print(json.dumps({"ok": is_sound, "findings": [asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            print(f"{finding.verdict:8}{finding.subject:9}{finding.text}")
    return 0 if is_sound else 1


def check_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Finding("python", "problem", f"{version}; 3.10 or newer is needed")
    return Finding("python", "ok", f"{version} ({sys.executable})")


def check_java() -> Finding:
    """Check the Java that Spark would start: the Java in JAVA_HOME, or else on PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(java) is None:
        return Finding("java", "problem", f"{java} was not found; install Java 17 or newer, or set JAVA_HOME")
    try:
        command = [java, "-XshowSettings:properties", "-version"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", "problem", f"{java} does not run: {error}")
    major = java_major(answer.stderr + answer.stdout)
    if major is None:
        return Finding("java", "problem", f"{java} -version gave no version; install Java 17 or newer")
    if major < OLDEST_JAVA:
        return Finding("java", "problem", f"{java} is Java {major}; Spark 4 needs 17 or newer")
    encoding = file_name_encoding(answer.stderr + answer.stdout)
    if encoding.upper() not in ("UTF-8", "UTF8"):
        text = f"{major} ({java}); it reads file names as {encoding} and misses all others: set LC_ALL=C.UTF-8"
        return Finding("java", "note", text)
    return Finding("java", "ok", f"{major} ({java})")


def file_name_encoding(answer: str) -> str:
    """Return the encoding in which Java reads file names in this locale. UTF-8 if Java does not print it."""
    match = re.search(r"sun\.jnu\.encoding = (\S+)", answer)
    return match[1] if match else "UTF-8"


def java_major(answer: str) -> int | None:
    """Return Java's major version: 17 for ``version "17.0.15"``, 8 for ``version "1.8.0_402"``, None without any."""
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match[1]) if match else None


def check_pyspark() -> Finding:
    """Check that pyspark, pyspark-client and their files have the same version. Both packages own the same files."""
    full, client = installed_version("pyspark"), installed_version("pyspark-client")
    problem = spark_absent()
    if problem:
        return Finding("pyspark", "problem", f"{problem}; {_install(client)}")
    folder = pyspark_folder()
    imported = version_on_disk(folder) if folder else None
    if len({version for version in (full, client, imported) if version}) > 1:
        return Finding(
            "pyspark",
            "problem",
            f"pyspark {full}, pyspark-client {client} and the files in {folder} ({imported}) are of "
            f"different versions, so the files may be mixed; {_install(client)}",
        )
    if imported is None or _numbers(imported) < OLDEST_PYSPARK:
        return Finding("pyspark", "problem", f"{imported or 'of unknown version'}; 4.2 or newer is needed")
    return Finding("pyspark", "ok", f"{imported} ({folder})")


def spark_absent() -> str | None:
    """Return why this Python cannot start Spark, or None if it can.

    Spark is in SPARK_HOME, or else in PySpark's folder.
    """
    folder = pyspark_folder()
    if folder is None:
        return "pyspark is not importable"
    home = Path(os.environ.get("SPARK_HOME") or folder)
    if not (home / "jars").is_dir():
        return f"{home} has no jars (pyspark-client alone is no Spark)"
    return None


def _install(version: str | None) -> str:
    version = version or "4.2.0"
    return f"pip uninstall -y pyspark pyspark-client && pip install pyspark=={version} pyspark-client=={version}"


def installed_version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def version_on_disk(folder: Path) -> str | None:
    try:
        content = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"""^__version__[^=]*=\s*['"]([^'"]+)""", content, re.MULTILINE)
    return match[1] if match else None


def check_class_archive() -> Finding:
    """Check the class archive. Jobs run without it, but start some seconds later."""
    try:
        archive = class_archive(os.environ)
        path = archive.find() if archive else None
    except (CkptError, OSError) as error:
        return Finding("archive", "note", f"not used: {error}")
    if archive is None:
        return Finding("archive", "note", "of classes: switched off, or there is no Java or Spark that has one")
    if archive.spark.has_settings():
        return Finding("archive", "note", f"none: Java takes no archive while there are files in {archive.spark.conf}")
    if path is None:
        return Finding("archive", "note", "of classes: none; `ckpt class-archive` makes one, drivers start sooner then")
    return Finding("archive", "ok", str(path))


def check_airflow() -> Finding:
    version = installed_version("apache-airflow-core")
    if version is None:
        return Finding("airflow", "note", "not installed; jobs run with `ckpt run` only")
    if _numbers(version) < OLDEST_AIRFLOW:
        return Finding("airflow", "problem", f"{version}; the operator needs 3.3 or newer")
    provider = installed_version("apache-airflow-providers-apache-spark")
    if provider is None:
        return Finding("airflow", "problem", "no Spark provider; pip install apache-airflow-providers-apache-spark")
    return Finding("airflow", "ok", f"{version}, Spark provider {provider}")


def try_root(args: argparse.Namespace) -> Finding:
    """Check the root as a run does, then create one small object twice (R17) and delete it."""
    try:
        storage = open_storage(arguments.location(args))
        check_root_of_run(storage)
        if storage.exists(ROOT_MARKER):
            read_root(storage)
        storage.try_out()
    except CkptError as error:
        return Finding("root", "problem", str(error))
    return Finding("root", "ok", f"{storage.uri} creates an object only once, as it must")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(_leading_numbers(version))


def _leading_numbers(version: str) -> Iterator[int]:
    for part in version.split(".")[:2]:
        match = re.match(r"\d+", part)
        yield int(match[0]) if match else 0
