from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from airflow_provider_ckpt import packaging
from airflow_provider_ckpt.packaging import package_zip


def test_the_zip_is_built_once_and_identical_in_every_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = package_zip(tmp_path / "a")
    written = first.stat().st_ino
    assert package_zip(tmp_path / "a") == first
    assert first.stat().st_ino == written
    other = package_zip(tmp_path / "b")
    assert other.name == first.name
    assert other.read_bytes() == first.read_bytes()


def test_the_zip_contains_the_package_without_bytecode(tmp_path: Path) -> None:
    names = zipfile.ZipFile(package_zip(tmp_path)).namelist()
    assert "airflow_provider_ckpt/__init__.py" in names
    assert "airflow_provider_ckpt/spark/app/session.py" in names
    assert not [name for name in names if "__pycache__" in name or not name.startswith("airflow_provider_ckpt/")]
    assert len(list(tmp_path.iterdir())) == 1


def test_the_package_can_be_imported_from_the_zip_alone(tmp_path: Path) -> None:
    code = "import airflow_provider_ckpt.storage.storage as s; print(s.__file__)"
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package_zip(tmp_path))!r}); {code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ".zip/airflow_provider_ckpt/" in process.stdout


def test_a_changed_file_changes_the_name_of_the_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "airflow_provider_ckpt"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(packaging, "PACKAGE", package)
    before = package_zip(tmp_path)
    (package / "__init__.py").write_text("changed = True")
    assert package_zip(tmp_path) != before


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    trusted = package_zip().parent
    assert trusted.stat().st_mode & 0o777 == 0o700
    trusted.chmod(0o777)
    assert package_zip().parent != trusted
