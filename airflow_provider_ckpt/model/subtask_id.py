"""Names of subtasks."""

from __future__ import annotations

from airflow_provider_ckpt.model.errors import DamagedFormError

_DIGITS = 9


class SubtaskId(str):
    """A subtask, which is one of the parallel instances of a vertex.

    Its text is "<vertex>/<index>", in journals and messages, and as a key there.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> SubtaskId:
        """Read a subtask's name. Raises DamagedFormError."""
        vertex, _, number = text.rpartition("/")
        if not vertex or not number.isdecimal() or len(number) > _DIGITS:
            raise DamagedFormError(what=f"{text[:80]!r} is no subtask, <vertex>/<number>")
        return cls(text)

    @classmethod
    def of(cls, vertex: str, index: int) -> SubtaskId:
        return cls(f"{vertex}/{index:d}")

    @property
    def vertex(self) -> str:
        return self.rpartition("/")[0]

    @property
    def number(self) -> int:
        return int(self.rpartition("/")[2])
