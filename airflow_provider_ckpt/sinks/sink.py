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

from airflow_provider_ckpt.sinks.errors import IllegalStageRequestError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Handle = dict[str, Any]
T = TypeVar("T")


class Patient(Protocol):
    """Calls a function again while it fails with an error that may pass."""

    def __call__(self, act: Callable[[], T]) -> T: ...


def _at_once(act: Callable[[], T]) -> T:
    return act()


def _no_executors(frame: DataFrame, function: Callable[[int, Iterator[Any]], Any]) -> list[Any]:
    raise NotImplementedError("whoever stages this request has given it nothing that runs on executors")


_ATTEMPT = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9_.~-]{0,149}")
_NONCE = re.compile(r"[A-Za-z0-9]{1,40}")


@dataclass(frozen=True)
class SinkContext:
    """Where a sink finds itself. ``storage_options`` are those of the job's root (secrets: never shown)."""

    job_id: str
    uid: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class SinkInput:
    """What a sink is going to be given. ``columns``: (name, type) in order, the type as Spark's schema JSON has it
    (``"long"``, or an object for a nested one). ``output_mode``: Spark's. ``bounded``: whether the rows end.
    ``not_null``: names of the columns that Spark knows to hold no null."""

    uid: str
    columns: tuple[tuple[str, Any], ...]
    output_mode: str = "append"
    bounded: bool = False
    not_null: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StageRequest:
    """One call of :meth:`BoundSink.stage`.

    ``attempt`` is the subtask's attempt (letters, digits, ``_ . ~ -``, at most 150), ``nonce`` is new for
    each call (letters and digits, at most 40), so :attr:`id` is never used twice (R5).

    ``counted`` takes the frame and returns it with a row count taken in flight, as a frame is read once
    (R18), and a function that tells the count; call that after the returned frame was consumed. It adds some
    5 % to a plain write: a sink that can read the count off what it wrote does without.

    ``over_partitions`` takes a frame and a function, consumes the frame by calling the function for each partition on
    executors, and returns what it has returned (JSON values), once for each partition. The function is given the
    attempt id of Spark's task and an iterator of Arrow record batches; a task that Spark repeats calls it again, with
    another id, and of these only the call that Spark counts is told of. It is sent with its module by value: nothing of
    this package need be installed there.

    ``patient`` calls a function that takes nothing, and returns what it returns. While the function fails with a
    TransientError it is called again, for the run's ``sink_timeout``. Use it for what the target has to do before the
    frame is consumed. The function must undo what it did when it fails.

    Raises IllegalStageRequestError if ``attempt`` or ``nonce`` cannot be part of a file name.
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
        if not _ATTEMPT.fullmatch(self.attempt):
            raise IllegalStageRequestError(part="attempt", value=self.attempt)
        if not _NONCE.fullmatch(self.nonce):
            raise IllegalStageRequestError(part="nonce", value=self.nonce)
        if self.batch_id < 0:
            raise IllegalStageRequestError(part="batch_id", value=self.batch_id)

    @property
    def id(self) -> str:
        return f"{self.attempt}-{self.batch_id}-{self.nonce}"


def attempt_of(handle_id: str) -> str | None:
    """The attempt in a handle's id; None if it is no such id (then it is none of our places)."""
    parts = handle_id.rsplit("-", 2)
    if len(parts) != 3 or not parts[1].isdigit() or not _NONCE.fullmatch(parts[2]):
        return None
    return parts[0]


class Sink(ABC):
    """What a user gives to ``job.sink``: a value that says where the rows go. Must be picklable, must open
    nothing when constructed, and its ``repr`` must show no secret."""

    @abstractmethod
    def validate(self) -> None:
        """Refuse what cannot work: raises subclasses of InvalidInputError.

        Called when the job is validated, in any process, any number of times, before anything is written.
        Does no I/O and imports no Spark.
        """

    @abstractmethod
    def bind(self, context: SinkContext) -> BoundSink:
        """The sink of this job and uid. Called once in each process that stages or releases; may connect,
        must not write. Two processes may hold the same bound sink at the same time (a zombie and its
        successor, R8): everything below has to be right then, too."""

    changeable: ClassVar[frozenset[str]] = frozenset()
    """Keys of :meth:`definition` that may differ between two runs of one job."""

    def definition(self) -> Mapping[str, Any]:
        """What of this sink decides where its rows go and in which form: a JSON object, without secrets.

        Recorded in the journal when the job first starts and compared, key by key, at every later start: a
        difference is refused unless the key is in :attr:`changeable`. A default that is added later must leave
        the key out when it is not set. ``type`` is the class.
        """
        return {"type": f"{type(self).__module__}.{type(self).__qualname__}"}

    def check_input(self, given: SinkInput) -> None:  # noqa: B027 - a sink may take anything
        """Refuse rows that cannot be written: raises subclasses of InvalidInputError.

        Called in the driver once the query is analysed, before anything is written; does no I/O.
        """

    def at_odds(self, other: Sink) -> Sequence[str]:
        """What keeps a reader from reading both as one, of another sink of the job that has a folder of
        :meth:`spark_folders` in common with this one: keys of :meth:`definition`, say. Called with :meth:`validate`;
        anything refuses the job. A sink whose folder holds nothing that is read from there has nothing to say."""
        return ()

    def not_released_with(self, other: Sink) -> str | None:
        """Why this one and ``other``, another sink of the job, cannot be released in one transaction
        (:meth:`BoundSink.release_together`); None if they can. Called with :meth:`validate`, if the job wants it."""
        return f"a {type(self).__name__} is released by itself"

    def spark_folders(self, storage_options: Mapping[str, Any]) -> Sequence[Location]:
        """Where Spark itself writes, each URI with its fsspec options, so that Spark can be told how to reach
        it. Called in the driver before any source is read, and without options after :meth:`validate`; does no I/O.
        ``storage_options``: those of the job's root."""
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
        """Refuse a target that a job which is new must not write to, because of what others wrote there.

        Called once, for a job that its root does not know yet, before anything is written, also to the root. Reads
        only. Raises subclasses of InvalidInputError. A job may be given up after it.
        """

    def storages(self) -> Sequence[Storage]:
        """Return the folders in which the sink itself creates, reads, lists and deletes objects. The driver checks its
        rights there before it starts Spark."""
        return ()

    def check_rows(self, given: SinkInput) -> None:  # noqa: B027 - a target may take any rows
        """Refuse rows that do not fit what is in the target: raises subclasses of InvalidInputError.

        Called in the driver at every start, after :meth:`check_target`, before anything is written, also to the root.
        Reads only. Not called where no query is left that feeds the sink.
        """

    def prepare(self) -> None:  # noqa: B027 - most targets need no preparation
        """Make the target ready and refuse one that cannot keep the promises above (R17).

        Called before the first :meth:`stage` of an attempt, and before the job is claimed: by several drivers at once,
        and more than once by one. Must be idempotent.
        """

    @abstractmethod
    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        """Write the frame durably and invisibly to a place of its own and return its handle.

        Called inside ``foreachBatch`` in the Spark driver. It is called again, with another nonce, when Spark
        repeats a batch; the frame may then hold other rows. Of several calls for one batch at most one
        handle is published; the others are left to :meth:`collect_garbage`.

        * Consumes the frame exactly once, also if it is empty (R18): no ``isEmpty``, no ``limit`` before.
        * An empty batch gives a handle without content and leaves nothing behind.
        * When it returns, the rows survive the loss of every process. When it raises, nothing is promised. After a
          TransientError it is called again, with another nonce, if the frame may be consumed again.
        * Output modes: in ``update`` and ``complete`` mode the frame holds changed (all) rows; what that
          means to the target is the sink's to say.
        """

    @abstractmethod
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        """Make the rows of ``handles`` visible, as checkpoint ``checkpoint``; return counts of what became visible.

        ``rows`` is needed, the sum of ``rows`` of the handles that became visible: by it the next start knows whether
        the target has lost a release. Others are for display. Of handles that an earlier call has released, and its
        answer was lost, the caller counts the rows itself (``earlier_rows``).

        Called after the checkpoint has completed, until it succeeds, in any process that hosts the sink,
        without Spark. The handles are in the order in which they were staged (per subtask).

        * Conditional in the target (R9): ``checkpoint`` <= :meth:`last_released` is a no-op. The check and
          the advance are one atomic step of the target, so a zombie that comes late changes nothing. If it can be
          told that a handle was never released, the call raises instead: another job releases there.
        * A call may cover several checkpoints, and may repeat handles that an earlier call with a lower
          checkpoint has released already (crash before the journal heard of it): those are skipped.
        * Raises TransientError subclasses if trying again may help, TerminalError subclasses if not.
        """

    def release_together(self, shares: Sequence[Share], checkpoint: int) -> list[dict[str, int]]:
        """What :meth:`release` does, for several sinks of one job at once, in one atomic step of the target: it happens
        in all of them or in none. ``shares``: this sink's among them, in an order that is the same in each call of a
        run; in the next one the job's file may define them in another.
        Returns counts, one for each share.

        Called instead of :meth:`release` for sinks that share a transaction, which :meth:`Sink.not_released_with` has
        let pass. Of some of them the checkpoint may be released already.
        """
        raise NotImplementedError("a sink that lets others be released with it does that")

    @abstractmethod
    def last_released(self) -> int:
        """The highest checkpoint the target knows to be released, 0 if none; read from the target, not from
        memory. A sink need not record a checkpoint that released nothing, so this may lag behind the
        journal by empty checkpoints: releasing nothing twice is harmless."""

    def emptied(self) -> str | None:
        """Return what shows that the target has lost the rows that were released to it; None: nothing shows that.

        Called in the driver when a run begins, which warns: a reader may have deleted what it has read. Reads only.
        """
        return None

    @abstractmethod
    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        """Delete staged rows of this job and sink that no one can ask for any more; return their ids, sorted.

        That is: the id is not in ``live_handles`` (ids of all handles that are published, not voided by a rewind, R4,
        and not yet released) *and* its attempt is not in ``live_attempts`` (fenced: it cannot publish any more, R5).
        ``live_attempts`` answers ``in``; it may hold attempts that do not exist yet, and then cannot be listed.
        Called when a driver has taken the job over, at the end of a job, and when it is deleted. All attempts are live
        but those that the logs of this job know to be over, as another job of this id, under another root, may stage in
        the same target. Idempotent.

        Something that cannot be deleted keeps nothing else from being: raise :class:`~.errors.GarbageLeftError` at the
        end. A driver that takes the job over tells of it and goes on; a deletion of the job is not complete.
        """

    def staged(self) -> Mapping[str, Sequence[int]] | None:
        """Id of each handle of which staged rows lie in the target -> the bytes of each of its files. Reads only.

        ``ckpt gc`` says by it beforehand what it would delete, and by it goes what a failed attempt has left, when the
        next one of its subtask begins. None: the sink cannot tell, and what it has staged is left to the next driver.
        """
        return None

    def delete_staged(self, ids: Collection[str]) -> None:
        """Delete what was staged under these ids, and nothing else; silent about those that are gone. Called only for
        ids of :meth:`staged` of which :meth:`collect_garbage` would be right to delete each."""
        raise NotImplementedError("a sink that tells what it has staged deletes it, too")


@dataclass(frozen=True)
class Share:
    """What one sink has in a release of several."""

    sink: BoundSink
    handles: Sequence[Handle]
