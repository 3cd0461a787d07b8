"""``ckpt doctor``, on installations made of files."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.cli.doctor import check_java, check_pyspark, java_major
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import ROOT_MARKER, open_root


def _install(
    folder: Path, *, files: str = "4.2.0", jars: bool = True, monkeypatch: pytest.MonkeyPatch, **versions: str
) -> None:
    """Install pyspark's files and metadata of distributions into a site-packages folder, the only one on sys.path."""
    package = folder / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('doctor must not import it')")
    (package / "version.py").write_text(f"__version__: str = '{files}'\n")
    if jars:
        (package / "jars").mkdir()
    for name, version in versions.items():
        metadata = folder / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    standard = [path for path in sys.path if "site-packages" not in path]
    monkeypatch.setattr(sys, "path", [str(folder), *standard])
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)


def test_the_locked_pyspark_is_fine() -> None:
    """The check uses the installation on disk that the tests run in."""
    assert check_pyspark().verdict == "ok"


def test_equal_versions_are_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, monkeypatch=monkeypatch, pyspark="4.2.0", pyspark_client="4.2.0")
    assert check_pyspark().verdict == "ok"


@pytest.mark.parametrize(
    ("files", "full", "client"),
    [("4.3.0", "4.3.0", "4.2.0"), ("4.2.0", "4.3.0", "4.2.0"), ("4.2.0", "4.3.0", "4.3.0")],
)
def test_unequal_versions_are_a_problem_with_a_fix(
    files: str, full: str, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, files=files, monkeypatch=monkeypatch, pyspark=full, pyspark_client=client)
    finding = check_pyspark()
    assert finding.verdict == "problem"
    assert f"pip install pyspark=={client} pyspark-client=={client}" in finding.text


def test_the_client_alone_is_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, jars=False, monkeypatch=monkeypatch, pyspark_client="4.2.0")
    assert "no jars" in check_pyspark().text


def test_a_spark_distribution_elsewhere_is_found_by_spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path / "site", jars=False, monkeypatch=monkeypatch, pyspark_client="4.2.0")
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    assert check_pyspark().verdict == "ok"


def test_an_old_pyspark_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, files="4.1.3", monkeypatch=monkeypatch, pyspark="4.1.3")
    assert "4.2 or newer" in check_pyspark().text


def test_files_without_a_version_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, monkeypatch=monkeypatch)
    (tmp_path / "pyspark" / "version.py").unlink()
    assert check_pyspark().verdict == "problem"


@pytest.mark.parametrize(
    ("answer", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_major_version_of_java_is_read(answer: str, major: int | None) -> None:
    assert java_major(answer) == major


@pytest.mark.parametrize(("version", "verdict"), [("11.0.2", "problem"), ("17.0.1", "ok"), ("21", "ok")])
def test_java_is_searched_where_spark_searches(
    version: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java().verdict == verdict


@pytest.mark.parametrize(("encoding", "verdict"), [("UTF-8", "ok"), ("ANSI_X3.4-1968", "note")])
def test_a_java_with_a_narrow_encoding_is_noted(
    encoding: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'sun.jnu.encoding = {encoding}\nopenjdk version \"17.0.15\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = check_java()
    assert (finding.verdict, encoding in finding.text) == (verdict, verdict == "note")


def test_a_java_home_without_java_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "JAVA_HOME" in check_java().text


def test_r17_the_doctor_tries_the_root(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--root", str(tmp_path / "root")]) in (0, 1)
    root = next(line for line in capsys.readouterr().out.splitlines() if " root" in line)
    assert root.startswith("ok")


def test_a_root_that_cannot_be_written_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["doctor", "--root", str(tmp_path / "file" / "root")]) == 1
    root = next(line for line in capsys.readouterr().out.splitlines() if " root" in line)
    assert root.startswith("problem")


@pytest.mark.parametrize("existing", ["", "base", "base/root"])
def test_the_doctor_leaves_no_files(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).mkdir(parents=True, exist_ok=True)
    before = sorted(tmp_path.rglob("*"))
    main(["doctor", "--root", str(tmp_path / "base/root")])
    assert sorted(tmp_path.rglob("*")) == before


def test_the_doctor_keeps_files_of_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def link(origin: str, target: str) -> None:
        (tmp_path / "base/theirs").write_text("")
        real(origin, target)

    monkeypatch.setattr(os, "link", link)
    main(["doctor", "--root", str(tmp_path / "base/root")])
    assert [path.name for path in tmp_path.rglob("*")] == ["base", "theirs"]


def test_a_root_that_a_run_would_refuse_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_root(open_storage(tmp_path / "outer"))
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / ROOT_MARKER).write_text("hello")
    reasons = {
        "outer/inner": "inside another",
        "a[b]": "pattern",
        "foreign": "not a checkpoint root",
        ".": "contain another",
    }
    for root, reason in reasons.items():
        assert main(["doctor", "--root", str(tmp_path / root)]) == 1
        line = next(line for line in capsys.readouterr().out.splitlines() if " root" in line)
        assert line.startswith("problem")
        assert reason in line
    assert main(["doctor", "--root", "memory://x"]) == 1
    assert "lives in this process only" in capsys.readouterr().out


def test_an_existing_root_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_root(open_storage(tmp_path / "root"))
    main(["doctor", "--root", str(tmp_path / "root")])
    assert [path.name for path in (tmp_path / "root").iterdir()] == [ROOT_MARKER]
    assert any(line.startswith("ok      root") for line in capsys.readouterr().out.splitlines())


def test_findings_can_be_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json", "--root", str(tmp_path / "a[b]")])
    report = json.loads(capsys.readouterr().out)
    assert code == 1
    assert report["ok"] is False
    findings = {finding["subject"]: finding for finding in report["findings"]}
    assert list(findings) == ["python", "java", "pyspark", "archive", "airflow", "root"]
    assert findings["python"]["verdict"] == "ok"
    assert findings["root"]["verdict"] == "problem"
    assert "pattern" in findings["root"]["text"]


def test_findings_without_a_problem_can_be_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json", "--root", str(tmp_path / "root")])
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is (code == 0)
    assert report["ok"] is all(finding["verdict"] != "problem" for finding in report["findings"])
