"""Names of what runs in parallel."""

from __future__ import annotations


class SubtaskId(str):
    """One of the parallel instances of a vertex. It is its own readable form, "<vertex>/<index>": so it stands in
    journals and messages, and is a key there."""

    __slots__ = ()

    @classmethod
    def of(cls, vertex: str, index: int) -> SubtaskId:
        return cls(f"{vertex}/{index:d}")

    @property
    def vertex(self) -> str:
        return self.rpartition("/")[0]

    @property
    def number(self) -> int:
        return int(self.rpartition("/")[2])
