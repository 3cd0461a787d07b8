"""Two-phase-commit sinks: the extension point.

A sink *stages* what a micro-batch writes (pre-commit: durable, invisible) and *releases* it when a
checkpoint has completed (commit). Nothing relies on a recomputed batch being identical: what was staged
and checkpointed is what is released.

Life of a sink, and who calls what::

    Job.validate()      Sink.validate()              wherever the job is submitted; no I/O
                        Sink.spark_folders({})       the same; asked again in the driver, with the root's options
                        Sink.at_odds(other)          the same; of two sinks with a folder in common
                        Sink.not_released_with(...)  the same; of two sinks that name one transaction
    query analysed      Sink.check_input(...)        the driver, before anything is written; no I/O
    every start         Sink.definition()            the driver, compared with what the journal recorded
    driver starts       Sink.bind(context)           every process that hosts the sink, once
    job is new          BoundSink.check_target()     the driver, before anything is written
    every start         BoundSink.check_rows(...)    the same
                        BoundSink.prepare()          the process about to stage, before the first batch
    a run begins        BoundSink.emptied()          the driver, which warns
    foreachBatch        BoundSink.stage(...)         the Spark driver, once a batch and attempt of it
    checkpoint done     BoundSink.release(...)       any process that hosts the sink; needs no Spark (R16)
                        BoundSink.release_together() instead, of sinks that share a transaction
    attempt fenced      BoundSink.collect_garbage()  any process that hosts the sink
    ckpt gc, a restart  BoundSink.staged()           the same; then BoundSink.delete_staged()

A handle is what :meth:`BoundSink.stage` returns: a JSON object that is kept in the subtask's log and is
all that :meth:`BoundSink.release` gets, maybe months later, maybe in a newer version of this package. It
holds at least ``id`` (:attr:`StageRequest.id`) and ``rows``, and never a secret.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from airflow_provider_ckpt.sinks.errors import SinkContractError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Handle = dict[str, Any]
T = TypeVar("T")


class Patient(Protocol):
    """A function that calls another one again while it fails with an error that may pass."""

    def __call__(self, act: Callable[[], T]) -> T: ...


def _at_once(act: Callable[[], T]) -> T:
    return act()


def _no_executors(frame: DataFrame, function: Callable[[int, Iterator[Any]], Any]) -> list[Any]:
    raise NotImplementedError("this stage request has no function that runs on executors (over_partitions)")


_ATTEMPT = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9_.~-]{0,149}")
_NONCE = re.compile(r"[A-Za-z0-9]{1,40}")


@dataclass(frozen=True)
class SinkContext:
    """The job and uid of a sink. ``storage_options`` are those of the job's root, and secret: they are never shown."""

    job_id: str
    uid: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class SinkInput:
    """The rows that a sink will get.

    Args:
        uid: the sink.
        columns: (name, type) in order, the type as Spark's schema JSON has it (``"long"``, or an object for a nested
            type).
        output_mode: Spark's output mode.
        bounded: True if the rows end.
        not_null: names of the columns that Spark knows to hold no null.
    """

    uid: str
    columns: tuple[tuple[str, Any], ...]
    output_mode: str = "append"
    bounded: bool = False
    not_null: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StageRequest:
    """One call of :meth:`BoundSink.stage`.

    ``attempt`` is the subtask's attempt (letters, digits, ``_ . ~ -``, at most 150). ``nonce`` is new for each call
    (letters and digits, at most 40), so :attr:`id` is never used twice (R5).

    ``counted`` takes the frame, and returns the frame and a function. While the returned frame is consumed, its rows
    are counted, because a frame is read once (R18). After that, the function returns the count. Counting adds some 5 %
    to a plain write, so a sink that can read the count from its output does without.

    ``over_partitions`` takes a frame and a function. It consumes the frame: on executors it calls the function once for
    each partition, and it returns the results (JSON values). The function gets the attempt id of Spark's task and an
    iterator of Arrow record batches. A task that Spark repeats calls it again, with another id; only the result of the
    call that Spark counts is returned. The function is sent with its module by value, so this package need not be
    installed on executors.

    ``patient`` calls a function without arguments and returns its result. While the function fails with a
    TransientError it is called again, for the run's ``sink_timeout``. Use it for the target's preparations before the
    frame is consumed. The function must undo its work when it fails.

    Raises SinkContractError if ``attempt`` or ``nonce`` cannot be part of a file name.
    """

    attempt: str
    batch_id: int
    nonce: str
    counted: Callable[[DataFrame], tuple[DataFrame, Callable[[], int]]] = field(compare=False, repr=False)
    over_partitions: Callable[[DataFrame, Callable[[int, Iterator[Any]], Any]], list[Any]] = field(
        compare=False, repr=False, default=_no_executors
    )
    patient: Patient = field(compare=False, repr=False, default=_at_once)

    def __post_init__(self) -> None:
        fits = {
            "attempt": _ATTEMPT.fullmatch(self.attempt),
            "nonce": _NONCE.fullmatch(self.nonce),
            "batch_id": self.batch_id >= 0,
        }
        for part in fits:
            if not fits[part]:
                raise SinkContractError(
                    "Cannot stage a batch: {part} is {value!r}. It becomes part of a file name: an attempt has at most "
                    "150 letters, digits, '_', '.', '~', '-' and no dot or dash in front, a nonce at most 40 letters "
                    "and digits, a batch id is >= 0.",
                    part=part,
                    value=getattr(self, part),
                )

    @property
    def id(self) -> str:
        return f"{self.attempt}-{self.batch_id}-{self.nonce}"


def attempt_of(handle_id: str) -> str | None:
    """Return the attempt in a handle's id; None if the text is no such id, and so belongs to no place of a sink."""
    parts = handle_id.rsplit("-", 2)
    if len(parts) != 3 or not parts[1].isdigit() or not _NONCE.fullmatch(parts[2]):
        return None
    return parts[0]


class Sink(ABC):
    """The value that a user gives to ``job.sink``: a description of the target.

    It must be picklable, must open nothing when constructed, and its ``repr`` must show no secret.
    """

    @abstractmethod
    def validate(self) -> None:
        """Refuse settings that cannot work.

        Called when the job is validated, in any process, any number of times, before anything is written. Does no I/O
        and imports no Spark.

        Raises subclasses of InvalidInputError.
        """

    @abstractmethod
    def bind(self, context: SinkContext) -> BoundSink:
        """Return the sink of this job and uid.

        Called once in each process that stages or releases. It may connect, but must not write. Two processes may hold
        the same bound sink at the same time (a zombie and its successor, R8). The methods of the bound sink must be
        right then, too.
        """

    changeable: ClassVar[frozenset[str]] = frozenset()
    """Keys of :meth:`definition` that may differ between two runs of one job."""

    def definition(self) -> Mapping[str, Any]:
        """Return the part of this sink that decides where its rows go and in which form: a JSON object without secrets.

        It is recorded in the journal when the job first starts, and compared, key by key, at every later start. A
        difference is refused unless the key is in :attr:`changeable`. A default that is added later must leave the key
        out when it is not set. ``type`` is the class.
        """
        return {"type": f"{type(self).__module__}.{type(self).__qualname__}"}

    def check_input(self, given: SinkInput) -> None:  # noqa: B027 - a sink may take anything
        """Refuse rows that cannot be written.

        Called in the driver once the query is analysed, before anything is written; does no I/O.

        Raises subclasses of InvalidInputError.
        """

    def at_odds(self, other: Sink) -> Sequence[str]:
        """Return why readers could not read both sinks' rows in one folder, for example keys of :meth:`definition`.

        ``other``: another sink of the job that has a folder of :meth:`spark_folders` in common with this one. Called
        with :meth:`validate`; a result that is not empty refuses the job. A sink whose folder is not read directly
        returns nothing.
        """
        return ()

    def not_released_with(self, other: Sink) -> str | None:
        """Return why this sink and ``other`` cannot be released in one transaction; None if they can.

        ``other`` is another sink of the job. Called with :meth:`validate`, if the job wants a common transaction. See
        :meth:`BoundSink.release_together`.
        """
        return f"a {type(self).__name__} is released by itself"

    def spark_folders(self, storage_options: Mapping[str, Any]) -> Sequence[Location]:
        """Return the folders to which Spark itself writes, each URI with its fsspec options.

        Spark is configured to reach them. Called in the driver before any source is read, and without options after
        :meth:`validate`; does no I/O. ``storage_options``: those of the job's root.
        """
        return ()


class BoundSink(ABC):
    """A sink of one job. Invariants every implementation keeps (the conformance suite checks them):

    1. Staged rows are in no reader's sight before the release of a checkpoint that covers them.
    2. Two calls of :meth:`stage` never touch each other's data, not even for one batch (R5).
    3. A handle is released at most once, whatever is called how often and from where; whatever was released
       stays (R9).
    4. A crash between any two steps of :meth:`release` is repaired by calling it again, with the same or
       with a higher checkpoint.

    Calls for one bound sink come one at a time, except that :meth:`stage` may run in one thread while
    :meth:`release` runs in another, and :meth:`staged` and :meth:`delete_staged` in a third one.
    """

    def check_target(self) -> None:  # noqa: B027 - a target may take any job
        """Refuse a target that a new job must not write to, because other jobs wrote there.

        Called once, for a job that its root does not know, before anything is written, also to the root. Reads only.
        The job may be abandoned after the call.

        Raises subclasses of InvalidInputError.
        """

    def storages(self) -> Sequence[Storage]:
        """Return the folders in which the sink itself creates, reads, lists and deletes objects.

        The driver checks its rights there before it starts Spark.
        """
        return ()

    def check_rows(self, given: SinkInput) -> None:  # noqa: B027 - a target may take any rows
        """Refuse rows that do not fit the existing target.

        Called in the driver at every start, after :meth:`check_target`, before anything is written, also to the root.
        Reads only. It is not called if no query that feeds the sink is left.

        Raises subclasses of InvalidInputError.
        """

    def prepare(self) -> None:  # noqa: B027 - most targets need no preparation
        """Make the target ready, and refuse a target that cannot keep the promises above (R17).

        Called before the first :meth:`stage` of an attempt, and before the job is claimed: by several drivers at once,
        and more than once by the same driver. Must be idempotent.
        """

    @abstractmethod
    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        """Write the frame durably and invisibly to a place of its own and return its handle.

        Called inside ``foreachBatch`` in the Spark driver. It is called again, with another nonce, when Spark repeats a
        batch; the frame may then hold other rows. Of several calls for one batch at most one handle is published; the
        others are left to :meth:`collect_garbage`.

        * Consumes the frame exactly once, also if it is empty (R18): no ``isEmpty``, no ``limit`` before.
        * An empty batch gives a handle without content and leaves nothing in the target.
        * When it returns, the rows survive the loss of every process. When it raises, nothing is promised. After a
          TransientError it is called again, with another nonce, if the frame may be consumed again.
        * Output modes: in ``update`` and ``complete`` mode the frame holds changed (all) rows. The sink decides what
          that means for the target.
        """

    @abstractmethod
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        """Make the rows of ``handles`` visible, as checkpoint ``checkpoint``; return counts of what became visible.

        ``rows`` is needed: the sum of ``rows`` of the handles that became visible. The next start compares it to detect
        that the target has lost a release. Other counts are for display. If the answer of an earlier call was lost, the
        caller itself counts the rows that the call released (``earlier_rows``).

        Called after the checkpoint has completed, until it succeeds, in any process that hosts the sink, without Spark.
        The handles are in the order in which they were staged (per subtask).

        * Conditional in the target (R9): ``checkpoint`` <= :meth:`last_released` is a no-op. The check and the advance
          are one atomic step of the target, so a zombie that comes late changes nothing. If the target shows that a
          handle was never released, the call raises instead: another job releases there.
        * A call may cover several checkpoints, and may repeat handles that an earlier call with a lower checkpoint has
          released (if the driver crashed before it wrote the journal). Those are skipped.
        * Raises TransientError subclasses if trying again may help, TerminalError subclasses if not.
        """

    def release_together(self, shares: Sequence[ReleaseParticipant], checkpoint: int) -> list[dict[str, int]]:
        """Release several sinks of one job in one atomic step of the target: all of them or none.

        It does the work of :meth:`release` for each of them. ``shares``: one for each sink, including this one. Their
        order is the same in each call of a run. In the next run the job's file may define another order. Returns
        counts, one for each share.

        Called instead of :meth:`release` for sinks that share a transaction, which :meth:`Sink.not_released_with` has
        permitted. Some of them may have released the checkpoint before.
        """
        raise NotImplementedError("a sink that permits a shared transaction must implement release_together")

    @abstractmethod
    def last_released(self) -> int:
        """Return the highest checkpoint that the target knows to be released; 0 if there is none.

        It is read from the target, not from memory. A sink need not record a checkpoint that released nothing. So the
        result may lag behind the journal by empty checkpoints, and releasing nothing twice is harmless.
        """

    def emptied(self) -> str | None:
        """Return what shows that the target has lost the rows that were released to it; None: nothing shows that.

        Called in the driver when a run begins, which warns: a reader may have deleted what it has read. Reads only.
        """
        return None

    @abstractmethod
    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        """Delete staged rows of this job and sink that no call will need again; return their ids, sorted.

        Rows are garbage if both conditions hold. Their id is not in ``live_handles``: the ids of all handles that are
        published, not voided by a restore (R4), and not released. Their attempt is not in ``live_attempts``: it is
        fenced, and cannot publish (R5). ``live_attempts`` answers ``in``; it may hold attempts that do not exist yet,
        and then cannot be listed.

        Called when a driver has taken the job over, at the end of a job, and when it is deleted. An attempt is live
        unless the logs of this job know that it is over, because another job of this id, under another root, may stage
        in the same target. Idempotent.

        If some rows cannot be deleted, delete the others and then raise :class:`~.errors.GarbageLeftError`. A driver
        that takes the job over reports it and continues; a deletion of the job is not complete.
        """

    def staged(self) -> Mapping[str, Sequence[int]] | None:
        """Return the staged rows in the target: id of the handle -> bytes of each of its files. Reads only.

        ``ckpt gc`` uses it to list what it would delete. The next attempt of a subtask uses it to delete the rows of a
        failed one. None: the sink cannot list them, and its staged rows are left to the next driver.
        """
        return None

    def delete_staged(self, ids: Collection[str]) -> None:
        """Delete the rows that were staged under these ids, and nothing else. Ignore ids that are gone.

        Called only for ids of :meth:`staged` that :meth:`collect_garbage` would be right to delete.
        """
        raise NotImplementedError("a sink that implements staged must implement delete_staged")


@dataclass(frozen=True)
class ReleaseParticipant:
    """The part of one sink in a release of several."""

    sink: BoundSink
    handles: Sequence[Handle]
