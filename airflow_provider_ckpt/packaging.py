"""Zip archives of Python code for executors: this package, which need not be installed there, and modules of a job."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""First date that a zip can have. With a fixed date the archive depends only on the contents of the files."""


def package_zip(folder: Path | None = None) -> Path:
    """Return the path of ``airflow_provider_ckpt-<content hash>.zip``, which the first call builds.

    ``folder`` defaults to a temporary folder to which only this user can write, because the next submission runs the
    code.
    """
    return write_zip(folder or _private_folder(), "airflow_provider_ckpt", _members())


def write_zip(folder: Path, name: str, members: Sequence[tuple[str, bytes]]) -> Path:
    """Write ``<name>-<content hash>.zip`` unless it exists, and return its path.

    ``members`` are pairs of path in the archive and content. A path that ends in a slash is a folder.
    """
    target = folder / f"{name}-{_digest(members)}.zip"
    if target.exists():
        # A cleaner of old temporary files reads this date, and executors may request the zip much later.
        os.utime(target)
    else:
        _write(target, members)
    return target


def _members() -> list[tuple[str, bytes]]:
    """Return the archive name and content of every file of the package, sorted, without bytecode."""
    paths = [
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in {".pyc", ".pyo"}
    ]
    names = sorted((path.relative_to(PACKAGE.parent).as_posix(), path) for path in paths)
    return [(name, path.read_bytes()) for name, path in names]


def _digest(members: Sequence[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in members:
        digest.update(f"{len(name)}:{name}{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _write(target: Path, members: Sequence[tuple[str, bytes]]) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".zip")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                info = zipfile.ZipInfo(name, _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, content)
        # A process that loses the race for the name replaces the zip by an identical one.
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _private_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"airflow-provider-ckpt-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    writable_by_others = stat.S_IMODE(status.st_mode) & 0o022
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user or writable_by_others:
        # Another user has created the folder first. Never run code from it.
        return Path(tempfile.mkdtemp(prefix="airflow-provider-ckpt-"))
    return folder
