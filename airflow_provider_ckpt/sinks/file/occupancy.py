"""The rules for several jobs that release to one folder, by the ``mode`` of a file sink."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.sinks.errors import OutputSupersededError, ReleaseRefusedError, TargetRefusedError
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.manifest_log import ManifestLog
from airflow_provider_ckpt.sinks.file.ownership_log import OwnershipEntry, OwnershipLog
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
    """The rules for one sink in a folder that sinks of other jobs may use, too. Jobs may start at the same time:

    1. The turn log puts first releases in one order. A process appends a turn only after it has read all earlier turns.
       Of two new jobs that refuse other jobs' rows, the second job reads the first job's turn and is refused.
    2. The turn of an overwriting sink lists the sinks that it replaces. Its first manifest repeats the list, and hides
       replaced rows from readers of the manifests. A replaced sink never releases again, even if it has staged rows.
    3. Of two overwriting sinks, the sink that releases later replaces the other sink's rows. A sink is refused if a job
       that started later has replaced the folder. So an abandoned driver cannot replace its successor's rows.
    4. Only files of replaced sinks are deleted, after the replacing manifest exists. A file's name states its sink. Any
       process may delete the files, at any time and repeatedly.

    Sinks of one job never exclude or replace each other.
    """

    def __init__(self, folders: FileFolders, name: SinkName, mode: Mode) -> None:
        self._storage = folders.target
        self._books = folders.books
        self._name = name
        self._mode = mode
        self._ownership = OwnershipLog(folders.books)
        self._is_swept = False

    def refuse_foreign_content(self) -> None:
        """Refuse a new job if its mode does not allow the folder's content. Reads only.

        Raises TargetRefusedError.
        """
        if self._mode != "append" and (content := self._foreign_content(self._ownership.catch_up())) is not None:
            raise TargetRefusedError(
                "Sink {sink} of job {job_id!r} cannot write to {uri}: {held}. {ways}",
                **self._error_fields(),
                held=content,
            )

    def has_releases(self) -> bool:
        """Return True if any job has released to the folder."""
        return any(map(self._release_count, self._recorded_sinks()))

    def visible_sinks(self) -> list[SinkName]:
        """Return the sinks that have rows in the folder, except replaced sinks and those that this sink replaces."""
        replaced = {name for turn in self._ownership.catch_up() for name in turn.supersedes}
        released = [name for name in self._recorded_sinks() if name not in replaced and self._release_count(name)]
        return [name for name in released if self._mode != "overwrite" or name.job_id == self._name.job_id]

    def register_start(self) -> None:
        """Append the start of an overwriting sink to the turn log, unless the log has it. Other modes need no entry."""
        if self._mode != "overwrite":
            return
        while self._first_index("start", self._name, self._ownership.catch_up()) is None:
            self._ownership.append(OwnershipEntry("start", self._name, self._mode))

    def take_turn(self, has_rows: bool) -> OwnershipEntry | None:
        """Return the turn of the sink's first release; None if no turn is needed. Append the turn if it is new.

        Mode ``append`` needs no turn. A release without rows needs a turn only to replace another sink.

        Raises ReleaseRefusedError, OutputSupersededError.
        """
        if self._mode == "append":
            return None
        while True:
            turns = self._ownership.catch_up()
            if (own_turn := self._own_turn(turns)) is not None:
                return own_turn
            self._refuse_superseded(turns)
            other_sinks = self._other_jobs_sinks(turns) if self._mode == "overwrite" else ()
            if not has_rows and not other_sinks:
                return None
            if (content := self._foreign_content(turns)) is not None:
                raise ReleaseRefusedError(
                    "The first release of sink {sink} of job {job_id!r} to {uri} is refused: meanwhile {held}. {ways} "
                    "Nothing was released; the rows stay staged, and a job with the same id releases them when mode "
                    "or folder allow it.",
                    **self._error_fields(),
                    held=content,
                )
            turn = OwnershipEntry("first", self._name, self._mode, tuple(sorted(other_sinks)))
            if self._ownership.append(turn):
                return turn

    def refuse_superseded(self) -> None:
        """Refuse to release if another job has replaced this sink.

        Called before files get their final names, and again before the manifest is appended. If another sink replaces
        this sink after that, it finds the files and deletes them.

        Raises OutputSupersededError.
        """
        self._refuse_superseded(self._ownership.catch_up())

    def sweep(self, force: bool = False) -> None:
        """Delete the files of the sinks that this sink has replaced. Called after this sink's first manifest exists.

        Only the first call in a process lists the folder, unless ``force`` is set.
        """
        if self._is_swept and not force:
            return
        own_turn = self._own_turn(self._ownership.catch_up())
        if own_turn is not None and own_turn.supersedes:
            self._delete(own_turn.supersedes)
        self._is_swept = True

    def _delete(self, names: Collection[SinkName]) -> None:
        replaced = {job_and_sink(name.job_id, name.sink) for name in names}
        for path, _ in self._storage.files(""):
            if is_data_file(path) and released_by(path) in replaced:
                self._storage.delete(path)

    # ---- reading the turns

    def _own_turn(self, turns: list[OwnershipEntry]) -> OwnershipEntry | None:
        index = self._first_index("first", self._name, turns)
        return None if index is None else turns[index]

    def _first_index(self, kind: str, name: SinkName, turns: list[OwnershipEntry]) -> int | None:
        return next((index for index, turn in enumerate(turns) if turn.kind == kind and turn.name == name), None)

    def _refuse_superseded(self, turns: list[OwnershipEntry]) -> None:
        superseder = self._superseder(turns)
        if superseder is None:
            return
        if (
            self._name in superseder.supersedes
            and ManifestLog(self._books, superseder.name.job_id, superseder.name.sink).length()
        ):
            self._delete([self._name])  # files that it moved after the replacing sink had listed the folder
        raise OutputSupersededError(
            "Sink {sink} of job {job_id!r} is superseded at {uri}: job {by!r} (sink {by_sink}) overwrites what this "
            "job released or was about to release. This job releases nothing further. If its rows are the wanted "
            "ones, run it again under a new job id.",
            sink=self._name.sink,
            job_id=self._name.job_id,
            uri=self._storage.uri,
            by=superseder.name.job_id,
            by_sink=superseder.name.sink,
        )

    def _superseder(self, turns: list[OwnershipEntry]) -> OwnershipEntry | None:
        for turn in turns:
            if self._name in turn.supersedes:
                return turn
        own_start = self._first_index("start", self._name, turns)
        if self._mode != "overwrite" or own_start is None or self._own_turn(turns) is not None:
            return None
        for turn in turns:
            if turn.kind == "first" and turn.mode == "overwrite" and turn.name.job_id != self._name.job_id:
                other_start = self._first_index("start", turn.name, turns)
                if other_start is not None and other_start > own_start:
                    return turn
        return None

    # ---- reading the folder

    def _other_jobs_sinks(self, turns: list[OwnershipEntry]) -> set[SinkName]:
        """Return the sinks of other jobs that have released, or have a turn for their first release."""
        sinks = {turn.name for turn in turns if turn.kind == "first" and turn.name.job_id != self._name.job_id}
        for name in self._recorded_sinks():
            if name.job_id != self._name.job_id and name not in sinks and self._release_count(name):
                sinks.add(name)
        return sinks

    def _recorded_sinks(self) -> Iterator[SinkName]:
        for job_id in filter(is_job_id, self._books.list("")):
            for sink in self._books.list(job_id):
                yield SinkName(job_id, sink)

    def _release_count(self, name: SinkName) -> int:
        return ManifestLog(self._books, name.job_id, name.sink).length()

    def _error_fields(self) -> dict[str, str]:
        return {
            "sink": self._name.sink,
            "job_id": self._name.job_id,
            "uri": self._storage.uri,
            "ways": _WAYS[self._mode],
        }

    def _foreign_content(self, turns: list[OwnershipEntry]) -> str | None:
        """Return a text about content of the folder that the mode does not allow; None if all is allowed."""
        replaced = {name for turn in turns for name in turn.supersedes}
        allowed = replaced | {name for name in self._recorded_sinks() if name.job_id == self._name.job_id}
        if self._mode == "overwrite":
            allowed.update(self._recorded_sinks(), (turn.name for turn in turns))
        elif other_sinks := sorted(self._other_jobs_sinks(turns) - replaced):
            return f"{_listed(other_sinks)} released there"
        names = {job_and_sink(name.job_id, name.sink) for name in allowed}
        unknown = [path for path, _ in self._storage.files("") if is_data_file(path) and released_by(path) not in names]
        if not unknown:
            return None
        return (
            f"it holds {counted(len(unknown), 'data file')} that no release of a job names, the first is {unknown[0]!r}"
        )


def _listed(names: list[SinkName]) -> str:
    shown = ", ".join(f"job {name.job_id!r} (sink {name.sink})" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
