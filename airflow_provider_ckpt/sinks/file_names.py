"""Names in the folders of a :class:`~.file_sink.FileSink`: pure functions, no I/O.

Names are those the store holds. Spark escapes partition values (``city=a%2Fb`` is a folder really named so),
and nothing here or in the store escapes or unescapes them again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from airflow_provider_ckpt.storage.nesting import is_hidden

BOOKKEEPING = "_ckpt"
"""The bookkeeping folder of a sink that keeps it in its own folder. That of a file sink lies beside the table."""

TURNS = "~turns"
"""In the bookkeeping folder. No job has a folder of this name, because a job id does not start with a tilde."""

_MAX_PREFIX = 130  # of the 255 bytes that file systems allow; batch, nonce, number and extension follow
_SPARK_FILE = re.compile(r"part-\d+-[0-9a-f-]{36}(?:_\d+)?[-.]c\d+")
_RELEASED = re.compile(r"part-(.+)-\d{8,}-[A-Za-z0-9]{1,40}-\d{5,}(?:\.[A-Za-z0-9_]+)*")


def sink_folder(job_id: str, uid: str) -> str:
    """Return the folder of one sink, in the bookkeeping folder."""
    return f"{job_id}/{uid}"


def staging_folder(job_id: str, uid: str) -> str:
    return f"{sink_folder(job_id, uid)}/staging"


def manifests_folder(job_id: str, uid: str) -> str:
    return f"{sink_folder(job_id, uid)}/manifests"


def is_data_file(path: str) -> bool:
    """Whether Spark would read the file: no segment is hidden. Partition folders of a column whose name
    starts with an underscore are not (``_day=1``), as in Spark's own rule."""
    return not any(map(is_hidden, path.split("/")))


def format_of(path: str) -> str | None:
    """By the extension, behind which there may be that of a compression; None if it tells of no format of a sink."""
    extensions = path.rpartition("/")[2].lower().split(".")[1:][-2:]
    return next((one for one in reversed(extensions) if one in ("parquet", "json", "csv", "orc")), None)


def released_names(staged: Iterable[str], *, job_id: str, uid: str, batch_id: int, nonce: str) -> list[str]:
    """Final names, relative to the sink's folder, of staged files given relative to their staged place.

    They are unique (job, sink, batch, nonce, number) and depend on nothing but the staged batch. They do not
    carry the checkpoint: a release of *n* that crashed may be finished as a part of the release of *n+1*
    (R9), and has to come to the same names.
    """
    prefix = f"part-{job_and_sink(job_id, uid)}-{batch_id:08d}-{nonce}"
    names = []
    for number, path in enumerate(staged):
        folder, _, name = path.rpartition("/")
        target = f"{prefix}-{number:05d}{_extension(name)}"
        names.append(f"{folder}/{target}" if folder else target)
    return names


def job_and_sink(job_id: str, uid: str) -> str:
    """What the names of a sink's released files begin with, behind ``part-``. A sink uid has no ``-``, so job and
    sink can be told apart; long ones are told apart by a hash."""
    name = f"{job_id}-{uid}"
    if len(name) <= _MAX_PREFIX:
        return name
    return f"{name[: _MAX_PREFIX - 13]}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def released_by(path: str) -> str | None:
    """The :func:`job_and_sink` in the name of a file that :func:`released_names` named; None if it did not."""
    match = _RELEASED.fullmatch(path.rpartition("/")[2])
    return match[1] if match else None


def _extension(name: str) -> str:
    """``.snappy.parquet``, ``.csv.gz``: readers take the compression from it."""
    match = _SPARK_FILE.match(name)
    rest = name[match.end() :] if match else name
    return rest[rest.index(".") :] if "." in rest else ""
