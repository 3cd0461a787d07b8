"""Names in the folders of a :class:`~.file.file_sink.FileSink`. No I/O.

All names are the real names in the store. Spark escapes partition values: the folder of ``a/b`` is really named
``city=a%2Fb``. Neither these functions nor the store escape or unescape names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from airflow_provider_ckpt.storage.nesting import is_hidden

BOOKKEEPING = "_ckpt"
"""Name of the bookkeeping folder in a sink's folder. A file sink's bookkeeping folder is next to the table instead."""

OWNERSHIP = "~owners"
"""Name of the turn log's folder in the bookkeeping folder. No job id starts with a tilde, so no job's folder has it."""

_MAX_PREFIX = 130  # of the 255 bytes that file systems allow; the rest is for batch, nonce, number and extension
_SPARK_FILE = re.compile(r"part-\d+-[0-9a-f-]{36}(?:_\d+)?[-.]c\d+")
_RELEASED = re.compile(r"part-(.+)-\d{8,}-[A-Za-z0-9]{1,40}-\d{5,}(?:\.[A-Za-z0-9_]+)*")


def sink_folder(job_id: str, uid: str) -> str:
    """Return the sink's folder in the bookkeeping folder."""
    return f"{job_id}/{uid}"


def staging_folder(job_id: str, uid: str) -> str:
    return f"{sink_folder(job_id, uid)}/staging"


def manifests_folder(job_id: str, uid: str) -> str:
    return f"{sink_folder(job_id, uid)}/manifests"


def is_data_file(path: str) -> bool:
    """Return True if Spark would read the file: no name in its path is hidden. A partition ``_day=1`` is not hidden."""
    return not any(map(is_hidden, path.split("/")))


def format_of(path: str) -> str | None:
    """Return the file format of a name such as ``x.csv`` or ``x.csv.gz``; None if the name shows no sink's format."""
    extensions = path.rpartition("/")[2].lower().split(".")[1:][-2:]
    return next(
        (extension for extension in reversed(extensions) if extension in ("parquet", "json", "csv", "orc")), None
    )


def released_names(staged: Iterable[str], *, job_id: str, uid: str, batch_id: int, nonce: str) -> list[str]:
    """Return the final path of each file, relative to the sink's folder. ``staged``: paths in the staged place.

    The names are unique and depend on the batch, not on the checkpoint. If the release of *n* crashes, the release of
    *n+1* may finish it (R9), and must then use the same names.
    """
    prefix = f"part-{job_and_sink(job_id, uid)}-{batch_id:08d}-{nonce}"
    names = []
    for number, path in enumerate(staged):
        folder, _, name = path.rpartition("/")
        target = f"{prefix}-{number:05d}{_extension(name)}"
        names.append(f"{folder}/{target}" if folder else target)
    return names


def job_and_sink(job_id: str, uid: str) -> str:
    """Return the text after ``part-`` in the names of a sink's released files: ``<job id>-<uid>``.

    A sink uid has no ``-``, so job and sink are distinguishable. A long name is shortened and gets a hash.
    """
    name = f"{job_id}-{uid}"
    if len(name) <= _MAX_PREFIX:
        return name
    return f"{name[: _MAX_PREFIX - 13]}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def released_by(path: str) -> str | None:
    """Return the :func:`job_and_sink` text in a released file's name; None if no sink has released the file."""
    match = _RELEASED.fullmatch(path.rpartition("/")[2])
    return match[1] if match else None


def _extension(name: str) -> str:
    """Return the extensions, such as ``.snappy.parquet`` or ``.csv.gz``. Readers derive the compression from them."""
    match = _SPARK_FILE.match(name)
    rest = name[match.end() :] if match else name
    return rest[rest.index(".") :] if "." in rest else ""
