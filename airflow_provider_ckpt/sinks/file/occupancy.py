"""The rules for several jobs that release to one folder, by the ``mode`` of a file sink."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.sinks.errors import OutputSupersededError, ReleaseRefusedError, TargetRefusedError
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.manifest_log import ManifestLog
from airflow_provider_ckpt.sinks.file.ownership_log import Turn, TurnLog
from airflow_provider_ckpt.sinks.file_names import is_data_file, job_and_sink, released_by
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.storage.layout import is_job_id

Mode = Literal["errorifexists", "append", "overwrite"]

_WAYS = {
    "errorifexists": (
        "Give each job a folder of its own (for example a path per day), or set the mode: mode='overwrite' replaces "
        "what other jobs released there, mode='append' adds to what is there."
    ),
    "overwrite": (
        "mode='overwrite' replaces what jobs released and deletes no file that it does not know. Move these files "
        "away, give another folder, or set mode='append' to add to them."
    ),
}


class Occupancy:
    """The place of one sink among the sinks of other jobs in its folder. Jobs that start at once do no harm:

    1. The turn log puts first releases in one order. A process appends a turn only after it has seen the earlier ones.
       Of two new jobs that refuse other jobs' rows, the second one sees the first one's turn.
    2. The turn of an overwriting sink decides what it replaces. Its first manifest repeats that, and switches the
       readers of the manifests over. A replaced sink never releases again, whatever it had staged.
    3. Of two overwriting sinks, the later first release replaces the earlier one. A sink is refused if it started
       before another job that has replaced the folder already. So an abandoned driver replaces nothing of its
       successor.
    4. Only files of replaced sinks are deleted. Their names identify them, and the replacing manifest must be there.
       This stays true for ever, so any process may delete them, at any time and repeatedly.

    Sinks of one job never exclude or replace each other.
    """

    def __init__(self, folders: FileFolders, name: SinkName, mode: Mode) -> None:
        self._storage = folders.target
        self._books = folders.books
        self._name = name
        self._mode = mode
        self._turns = TurnLog(folders.books)
        self._swept = False

    def refuse_company(self) -> None:
        """Refuse a folder whose content the mode does not allow, for a new job. Reads only.

        Raises TargetRefusedError.
        """
        if self._mode != "append" and (held := self._company(self._turns.catch_up())) is not None:
            raise TargetRefusedError(
                "Sink {sink} of job {job_id!r} cannot write to {uri}: {held}. {ways}", **self._names(), held=held
            )

    def has_releases(self) -> bool:
        """Return whether any job has released to the folder."""
        return any(map(self._released, self._known()))

    def shown(self) -> list[SinkName]:
        """Return the sinks whose rows readers will find in the folder, including this one if it has released."""
        replaced = {name for turn in self._turns.catch_up() for name in turn.supersedes}
        found = [name for name in self._known() if name not in replaced and self._released(name)]
        return [one for one in found if self._mode != "overwrite" or one.job_id == self._name.job_id]

    def start(self) -> None:
        """Register the start of a sink that overwrites. A sink that has registered keeps its place."""
        if self._mode != "overwrite":
            return
        while self._first_index("start", self._name, self._turns.catch_up()) is None:
            self._turns.append(Turn("start", self._name, self._mode))

    def take(self, has_rows: bool) -> Turn | None:
        """Take and return the turn of the first release; None if it needs none.

        Args:
            has_rows: whether the release has rows. A release without rows takes a turn only to replace something.

        Raises ReleaseRefusedError, OutputSupersededError.
        """
        if self._mode == "append":
            return None
        while True:
            turns = self._turns.catch_up()
            if (own := self._own(turns)) is not None:
                return own
            self._refuse_superseded(turns)
            others = self._others(turns) if self._mode == "overwrite" else ()
            if not has_rows and not others:
                return None
            if (held := self._company(turns)) is not None:
                raise ReleaseRefusedError(
                    "The first release of sink {sink} of job {job_id!r} to {uri} is refused: meanwhile {held}. {ways} "
                    "Nothing was released; the rows stay staged, and a job with the same id releases them when mode "
                    "or folder allow it.",
                    **self._names(),
                    held=held,
                )
            turn = Turn("first", self._name, self._mode, tuple(sorted(others)))
            if self._turns.append(turn):
                return turn

    def refuse_superseded(self) -> None:
        """Refuse to release if another job has replaced this sink.

        Called before files get their final names, and again before the manifest is appended. A sink that replaces this
        one later finds the files and deletes them.

        Raises OutputSupersededError.
        """
        self._refuse_superseded(self._turns.catch_up())

    def sweep(self, again: bool = False) -> None:
        """Delete the files of the sinks that this one has replaced, if any.

        It lists the folder, once in a process unless ``again``. Call it when this sink's first manifest is there,
        because the manifest replaces them.
        """
        if self._swept and not again:
            return
        own = self._own(self._turns.catch_up())
        if own is not None and own.supersedes:
            self._delete(own.supersedes)
        self._swept = True

    def _delete(self, names: Collection[SinkName]) -> None:
        gone = {job_and_sink(name.job_id, name.sink) for name in names}
        for path, _ in self._storage.files(""):
            if is_data_file(path) and released_by(path) in gone:
                self._storage.delete(path)

    # ---- reading the turns

    def _own(self, turns: list[Turn]) -> Turn | None:
        index = self._first_index("first", self._name, turns)
        return None if index is None else turns[index]

    def _first_index(self, kind: str, name: SinkName, turns: list[Turn]) -> int | None:
        return next((i for i, turn in enumerate(turns) if turn.kind == kind and turn.name == name), None)

    def _refuse_superseded(self, turns: list[Turn]) -> None:
        by = self._superseder(turns)
        if by is None:
            return
        if self._name in by.supersedes and ManifestLog(self._books, by.name.job_id, by.name.sink).length():
            self._delete([self._name])  # files that it moved after the other one had listed the folder
        raise OutputSupersededError(
            "Sink {sink} of job {job_id!r} is superseded at {uri}: job {by!r} (sink {by_sink}) overwrites what this "
            "job released or was about to release. This job releases nothing further. If its rows are the wanted "
            "ones, run it again under a new job id.",
            sink=self._name.sink,
            job_id=self._name.job_id,
            uri=self._storage.uri,
            by=by.name.job_id,
            by_sink=by.name.sink,
        )

    def _superseder(self, turns: list[Turn]) -> Turn | None:
        for turn in turns:
            if self._name in turn.supersedes:
                return turn
        started = self._first_index("start", self._name, turns)
        if self._mode != "overwrite" or started is None or self._own(turns) is not None:
            return None
        for turn in turns:
            if turn.kind == "first" and turn.mode == "overwrite" and turn.name.job_id != self._name.job_id:
                other = self._first_index("start", turn.name, turns)
                if other is not None and other > started:
                    return turn
        return None

    # ---- reading the folder

    def _others(self, turns: list[Turn]) -> set[SinkName]:
        """Return the sinks of other jobs that have released, or have taken their turn."""
        found = {turn.name for turn in turns if turn.kind == "first" and turn.name.job_id != self._name.job_id}
        for name in self._known():
            if name.job_id != self._name.job_id and name not in found and self._released(name):
                found.add(name)
        return found

    def _known(self) -> Iterator[SinkName]:
        for job_id in filter(is_job_id, self._books.list("")):
            for sink in self._books.list(job_id):
                yield SinkName(job_id, sink)

    def _released(self, name: SinkName) -> int:
        return ManifestLog(self._books, name.job_id, name.sink).length()

    def _names(self) -> dict[str, str]:
        return {
            "sink": self._name.sink,
            "job_id": self._name.job_id,
            "uri": self._storage.uri,
            "ways": _WAYS[self._mode],
        }

    def _company(self, turns: list[Turn]) -> str | None:
        """Describe the content of the folder that the mode does not allow; None if there is none."""
        dead = {name for turn in turns for name in turn.supersedes}
        allowed = dead | {name for name in self._known() if name.job_id == self._name.job_id}
        if self._mode == "overwrite":
            allowed.update(self._known(), (turn.name for turn in turns))
        elif others := sorted(self._others(turns) - dead):
            return f"{_listed(others)} released there"
        names = {job_and_sink(name.job_id, name.sink) for name in allowed}
        unknown = [p for p, _ in self._storage.files("") if is_data_file(p) and released_by(p) not in names]
        if not unknown:
            return None
        return (
            f"it holds {counted(len(unknown), 'data file')} that no release of a job names, the first is {unknown[0]!r}"
        )


def _listed(names: list[SinkName]) -> str:
    shown = ", ".join(f"job {name.job_id!r} (sink {name.sink})" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
