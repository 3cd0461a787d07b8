"""Files of a source, as storage lists them, and their changes after they were read."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.model.words import counted, were


@dataclass(frozen=True)
class FileStatus:
    """A file of a source. ``path`` is unescaped, as in Hadoop; ``size`` in bytes, ``modified`` in epoch ms."""

    path: str
    size: Count
    modified: int


def awaited(source: str, path: str, seconds: float) -> str:
    """Return the warning that ``source`` waits for the file ``path``, because of ``unfinished_files="wait"``."""
    return (
        f"source {source}: has waited {seconds:.0f} s for {path}, which is still being written. The other files of its "
        "batch wait, too, for ten minutes at most"
    )


@dataclass(frozen=True)
class ChangedFile:
    """A file that changed after it was read. Sizes are in bytes.

    ``read`` is the size when the file was read; None if a previous driver read it. ``size`` is the current size.
    """

    path: str
    read: Count | None
    size: Count

    @property
    def unread(self) -> int:
        """Bytes by which the file has grown since it was read; 0 if not grown, or if ``read`` is None."""
        return 0 if self.read is None else max(0, self.size - self.read)

    def __str__(self) -> str:
        if self.read is None:
            return f"{self.path} changed after its batch was planned, so part of it may not have been read"
        if self.size > self.read:
            return f"{self.path} grew after it was read: {counted(self.unread, 'byte')} {were(self.unread)} not read"
        if self.size < self.read:
            previous, now = counted(self.read, "byte"), counted(self.size, "byte")
            return f"{self.path} was replaced after it was read: {previous} then, {now} now"
        return f"{self.path} was written again after it was read, with the same size"
