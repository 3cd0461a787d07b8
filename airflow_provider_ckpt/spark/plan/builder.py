"""Builder of a vertex's DataFrame. It calls the user's functions with readers, and with unions of their inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_provider_ckpt.errors import is_classified, kind_and_text
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.user_failure import may_pass
from airflow_provider_ckpt.model.graph import JobEdge, JobVertex
from airflow_provider_ckpt.spark.query.analysed_plan import (
    followed_window,
    has_watermark,
    is_stateful,
    joins_streams,
    streaming_leaves,
    streams,
)
from airflow_provider_ckpt.spark.query.errors import (
    FunctionFailedError,
    FunctionFailedForNowError,
    UnfitSourceError,
    UnsupportedQueryError,
)
from airflow_provider_ckpt.spark.query.event_time import EventTimeGuard
from airflow_provider_ckpt.spark.query.final_answer import changes_rows, final_answer_mode
from airflow_provider_ckpt.spark.query.internal_files import internal_files_named
from airflow_provider_ckpt.spark.query.kafka.freezing import fetch_topics
from airflow_provider_ckpt.spark.query.kafka.kafka_options import (
    refuse_bounded,
    refuse_level,
    refuse_limits,
    refuse_start,
)
from airflow_provider_ckpt.spark.query.kafka.offsets import FrozenOffsets
from airflow_provider_ckpt.spark.query.sources.empty_sources import not_there, nothing_to_read
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.sources.frozen_files import (
    FrozenFiles,
    refuse_single_files,
    refuse_unreadable_names,
)
from airflow_provider_ckpt.spark.query.sources.malformed import MalformedRule
from airflow_provider_ckpt.spark.query.sources.partition_folders import unfit_folders
from airflow_provider_ckpt.spark.query.sources.reader import BatchReader, SourceReads, StreamReader
from airflow_provider_ckpt.spark.query.sources.shared_files import choice_of
from airflow_provider_ckpt.spark.query.sources.source_options import refuse_endless, refuse_options
from airflow_provider_ckpt.spark.query.sources.unlisted_files import refuse_unlisted
from airflow_provider_ckpt.spark.query.unions import Union, Unions, unite, with_like_fields, without_ended
from airflow_provider_ckpt.spark.query.united_event_times import with_event_time_of_others


def activate(spark: SparkSession) -> None:
    """Make ``spark`` the active session of the calling thread."""
    SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


_HINTS = {
    "pandas.DataFrame": ", such as spark.createDataFrame(frame)",
    "polars.DataFrame": ", such as spark.createDataFrame(frame.to_arrow())",
    "pyarrow.Table": ", such as spark.createDataFrame(table)",
    "pyspark.pandas.DataFrame": ", such as frame.to_spark()",
}
EdgeFrame = Callable[[str, bool], DataFrame]
"""Function from (edge uid, hold) to the frame that reads the edge. If hold is True, the frame holds back event time."""


@dataclass(frozen=True)
class BuiltQuery:
    frame: DataFrame
    output_mode: str
    reads: Mapping[str, SourceReads]
    """Source uid -> format, paths and options of its function."""
    watermark: bool
    stateful: bool
    joins_streams: bool = False
    final: bool = False
    """True if only the last micro-batch is published, because it has the final answer (:mod:`..query.final_answer`)."""
    changes_rows: bool = False
    """True if the query may publish a row that replaces an earlier row, such as a group's new total."""

    @property
    def schema(self) -> StructType:
        return self.frame.schema


@dataclass
class SourceCalls:
    """Caller of the users' functions, for streaming or for batch. It checks what each source's function reads."""

    spark: SparkSession
    streaming: bool
    limit: int | None = None
    ends: Mapping[str, FrozenEnd] = field(default_factory=dict)
    """Bounded source -> its frozen end. Sources whose end is not frozen are left out."""
    guard: EventTimeGuard | None = None
    """Setter of watermarks for a running query; None if the query is only planned."""
    followed: Collection[str] = ()
    """Bounded sources whose files a live source leaves out. Such a bounded source reads only the files of its list."""
    reads: dict[str, SourceReads] = field(default_factory=dict)
    _operators: dict[str, Operator] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)
    _topics: dict[str, dict[str, str]] = field(default_factory=dict)
    """Source uid -> (topic name -> topic id). Planning may call a source's function twice; brokers are queried once."""

    def __call__(self, operator: Operator, *, hold: bool = False) -> DataFrame:
        """Call a source's function, check its reads, and return its frame. ``hold``: True to hold back event time."""
        reader = self._reader(operator, hold)
        frame = _called(self.spark, operator, reader)
        self.reads[operator.uid], self._operators[operator.uid] = reader.reads, operator
        if reader.reads.loads != 1 or (self.streaming and streaming_leaves(frame) > 1):
            raise UnfitSourceError(
                "the function of source {uid!r} ({location}) loaded {loads} sources through its reader; it must load "
                "exactly one: write one @job.source function for each",
                uid=operator.uid,
                location=operator.location,
                loads=reader.reads.loads,
            )
        cleans = next((v for k, v in reader.reads.options.items() if k.lower() == "cleansource"), "off")
        if cleans.lower() != "off":
            raise UnfitSourceError(
                "source {uid!r} ({location}) has the option cleanSource={value}: Spark would delete or move files "
                "that no checkpoint covers, and a job that goes back to a checkpoint could not read them again. Leave "
                "the option out, and delete only files that a released checkpoint covers",
                uid=operator.uid,
                location=operator.location,
                value=cleans,
            )
        if self.streaming:
            _check_stream(operator, frame)
        late = self.streaming and (operator.watermark is not None or has_watermark(frame))
        refuse_options(operator, reader.reads.options, streaming=self.streaming, watermark=late)
        refuse_endless(operator, reader.reads, streaming=self.streaming)
        self._check_names(operator, reader.reads)
        return _with_watermark(operator, frame, self.guard)

    def transform(self, operator: Operator, arguments: Mapping[str, object]) -> DataFrame:
        """Call a transform's function with ``arguments`` (parameter -> frame), and return its result.

        Raises what :func:`call` raises. Raises NothingToReadError if a column is missing because a bounded source has
        no file.
        """
        try:
            return call(operator, arguments)
        except FunctionFailedError as error:
            sources = [(source, self.reads[uid]) for uid, source in self._operators.items()]
            raise nothing_to_read(self.spark, sources, error.__cause__) or error from error.__cause__

    def _check_names(self, operator: Operator, reads: SourceReads) -> None:
        """Refuse names of files and Kafka options that a query could not use. Each source is checked only once.

        Only files that exist now are checked. The ids of a source's topics are stored in ``reads``.
        """
        if not reads.has_end:
            return
        if operator.uid in self._checked:
            reads.topics = self._topics.get(operator.uid, {})
            return
        self._checked.add(operator.uid)
        if reads.is_kafka:
            refuse_level(operator.uid, operator.location, reads.options)
            if operator.bounded:
                refuse_bounded(operator.uid, operator.location, reads.options)
            else:
                refuse_start(operator.uid, operator.location, reads.options)
            if self.streaming:
                refuse_limits(operator.uid, operator.location, reads.options)
            uid, location = operator.uid, operator.location
            reads.topics = fetch_topics(self.spark, uid, location, reads.options, bounded=operator.bounded)
            self._topics[uid] = reads.topics
            return
        refuse_unlisted(self.spark, operator.uid, operator.location, reads)
        if self.streaming:
            refuse_single_files(self.spark, operator.uid, operator.location, reads)
            refuse_unreadable_names(self.spark, operator.uid, operator.location, reads)

    def _reader(self, operator: Operator, hold: bool) -> StreamReader | BatchReader:
        end = self.ends.get(operator.uid)
        offsets = end if isinstance(end, FrozenOffsets) else None
        skips = operator.temporary_files == "skip"
        if not self.streaming:
            files = list(end.files) if isinstance(end, FrozenFiles) else None
            malformed = MalformedRule(operator, streaming=False)
            return BatchReader(self.spark, files, offsets, skips_temporary=skips, malformed=malformed)
        limit = self.limit if operator.bounded else None
        reader = StreamReader(
            self.spark,
            operator.uid,
            limit,
            offsets,
            bounded=operator.bounded,
            holds_event_time=hold,
            skips_temporary=skips,
            malformed=MalformedRule(operator, streaming=True),
            select=choice_of(operator, self.ends, self.followed),
        )
        reader.options(**operator.options.to_spark())
        if operator.options.is_override:
            reader.hold_limits()
        return reader


def _called(spark: SparkSession, operator: Operator, reader: StreamReader | BatchReader) -> DataFrame:
    """Call a source's function with its reader. If a folder is missing, empty or misread, raise an error that says so.

    Raises what :func:`call` raises, NothingToReadError, UnreadableFileError.
    """
    try:
        return call(operator, {"": reader})
    except (FunctionFailedError, FunctionFailedForNowError) as error:
        cause = error.__cause__
        subject = f"source {operator.uid!r} ({operator.location})"
        problem = not_there(operator, reader.reads, cause) or nothing_to_read(spark, [(operator, reader.reads)], cause)
        raise problem or unfit_folders(subject, str(cause)) or error from cause


def _with_watermark(operator: Operator, frame: DataFrame, guard: EventTimeGuard | None) -> DataFrame:
    """Return a source's frame with the watermark that the source declares, if any.

    Raises UnfitSourceError for a watermark that Spark refuses.
    """
    uid, max_ahead = operator.uid, operator.max_ahead
    if operator.watermark is None:
        return frame if guard is None else guard.of_input(frame, None, uid=uid, max_ahead=max_ahead)
    column, delay = operator.watermark.column, operator.watermark.delay
    try:
        if guard is not None:
            return guard.follow(frame, column, delay, uid=uid, max_ahead=max_ahead)
        return frame.withWatermark(column, delay)
    except PySparkException as error:
        cause = str(error).partition("\n")[0].rstrip(".;")
        raise UnfitSourceError(
            "source {uid!r} ({location}) cannot have the watermark ({column!r}, {delay!r}): {cause}. Name a column of "
            'type TIMESTAMP, and a delay such as "1 hour"',
            uid=operator.uid,
            location=operator.location,
            column=column,
            delay=delay,
            cause=cause,
        ) from None


def call(operator: Operator, arguments: Mapping[str, object]) -> DataFrame:
    """Call a user's function with ``arguments``: parameter -> value. A source's reader has the key "".

    Raises FunctionFailedError, FunctionFailedForNowError, UnsupportedQueryError, and errors of this package that the
    function raises.
    """
    named = {name: value for name, value in arguments.items() if name}
    _activate(arguments.values())
    try:
        result = operator(*([arguments[""]] if "" in arguments else []), **named)
    except (Exception, SystemExit) as error:  # a user's function must not end the driver, least of all with success
        if is_classified(error):
            raise
        kind = FunctionFailedForNowError if may_pass(error) else FunctionFailedError
        raise kind(uid=operator.uid, location=operator.location, cause=kind_and_text(error)) from error
    if not isinstance(result, DataFrame):
        raise no_dataframe(operator, result)
    return result


def no_dataframe(operator: Operator, result: object) -> UnsupportedQueryError:
    """Return the error for an operator whose function returned ``result``, which is no DataFrame of Spark.

    Its message names the package of the result's type, because other packages have DataFrames, too.
    """
    kind = type(result)
    package = "pyspark.pandas" if kind.__module__.startswith("pyspark.pandas") else kind.__module__.partition(".")[0]
    got = kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"
    return UnsupportedQueryError(
        "the function of operator {uid!r} ({location}) returned {got}; it must return a DataFrame of Spark{hint}",
        uid=operator.uid,
        location=operator.location,
        got=got,
        hint=_HINTS.get(got, ""),
    )


def _activate(arguments: Iterable[object]) -> None:
    """Make the Spark session of an argument active in this thread, for functions that call ``getActiveSession()``."""
    for argument in arguments:
        spark = argument.sparkSession if isinstance(argument, DataFrame) else getattr(argument, "_spark", None)
        if isinstance(spark, SparkSession):
            activate(spark)
            return


class QueryBuilder:
    """Builder of the DataFrame of one vertex.

    Args:
        edge_frame: called for each edge that the query reads.
        recorded_unions: the unions as they were when no input was left out; None if none were recorded.
        unordered: bounded inputs whose rows are not in the order of event time.
        is_read: True if other queries or jobs read the output of the vertex.
    """

    def __init__(
        self,
        operators: Mapping[str, Operator],
        vertex: JobVertex,
        edges: Iterable[JobEdge],
        calls: SourceCalls,
        edge_frame: EdgeFrame,
        recorded_unions: Unions | None = None,
        unordered: frozenset[str] = frozenset(),
        *,
        is_read: bool = False,
    ) -> None:
        self._operators = operators
        self._is_read = is_read
        self._unordered = unordered
        self._follows_event_time = any(operators[uid].watermark is not None for uid in vertex.operators)
        """True if a source declares a watermark, or a build has found a watermark that a user's function has set."""
        self._holding: frozenset[str] = frozenset()
        """Sources and edges that hold back event time in the last build."""
        self._vertex = vertex
        self._edges = {(edge.operator, edge.producer): edge.uid for edge in edges}
        self._calls = calls
        self._edge_frame = edge_frame
        self._built: dict[str, DataFrame | None] = {}
        self.inputs: dict[str, DataFrame] = {}
        """Source or edge uid -> its frame in the last build."""
        self._recorded_unions: Unions = recorded_unions or {}
        self.unions: dict[tuple[str, str], Union] = {}
        """(Operator, parameter) -> union of the last build."""
        self._without: frozenset[str] = frozenset()

    def build(self, without: frozenset[str] = frozenset(), *, hold: bool = True) -> BuiltQuery:
        """Build the query and return it. Refuse watermarks on windows, and names of internal files.

        Args:
            without: ended sources and edges, which the query leaves out.
            hold: False if no input may hold back event time.

        Raises UnsupportedQueryError, and what the functions of the job raise.
        """
        output = self._output(without, hold)
        if not self._follows_event_time and has_watermark(output):
            self._follows_event_time = True
            if hold and self._inputs_that_hold(without):
                output = self._output(without, hold)
        self._refuse_internal_files(output)
        self._refuse_window_watermark(output)
        mode = self._output_mode()
        ends = self._calls.streaming and self._vertex.bounded
        final = final_answer_mode(output, mode, is_read=self._is_read) if ends else None
        return BuiltQuery(
            frame=output,
            output_mode=final or mode,
            reads=dict(self._calls.reads),
            watermark=has_watermark(output),
            stateful=is_stateful(output),
            joins_streams=self._calls.streaming and joins_streams(output),
            final=final is not None,
            changes_rows=self._calls.streaming and final is None and changes_rows(output, mode),
        )

    def _refuse_window_watermark(self, output: DataFrame) -> None:
        column = followed_window(output)
        if column is not None:
            operator = self._operators[self._vertex.uid]
            raise UnsupportedQueryError(
                "the query of operator {uid!r} ({location}) has a watermark on the column {column!r}, which holds "
                "windows. Spark takes no event time from such a column, so no window would close. Set the watermark "
                "on the column of the time that the windows are made of",
                uid=operator.uid,
                location=operator.location,
                column=column,
            )

    def _refuse_internal_files(self, output: DataFrame) -> None:
        producers = {edge: producer for (_, producer), edge in self._edges.items()}
        use = internal_files_named(output, {uid: self.inputs[uid] for uid in producers if uid in self.inputs})
        if use is not None:
            edge, column = use
            operator = self._operators[self._vertex.uid]
            raise UnsupportedQueryError(
                "{what} in the query of {uid!r} ({location}) would name internal files: the rows of {producer!r} come "
                "through a result partition. Take it in the function of the source, as a column "
                "(rows.withColumn('file', F.input_file_name())), and read that column here",

                uid=operator.uid, location=operator.location, what=column, producer=producers[edge]
            )  # fmt: skip

    def _output(self, without: frozenset[str], hold: bool) -> DataFrame:
        self._without, self._built, self.inputs, self.unions = without, {}, {}, {}
        self._holding = self._inputs_that_hold(without) if hold and self._follows_event_time else frozenset()
        output = self._frame(self._vertex.uid)
        assert output is not None, f"every input of {self._vertex.uid} was dropped"
        return output

    def holds_event_time(self, uid: str) -> bool:
        """Return whether source or edge ``uid`` holds back event time in the last build, so its rows are never late."""
        return uid in self._inputs_that_hold(self._without)

    def _inputs_that_hold(self, without: frozenset[str]) -> frozenset[str]:
        """Return the sources and edges that hold back event time if ``without`` is left out (R12, R13).

        These are the unordered bounded inputs. In a query with a live input, an input that cannot be left out at its
        end is excluded, because it would hold back event time for ever. A query without live inputs ends with its
        inputs, and then outputs its last windows.
        """
        if not self._calls.streaming:
            return frozenset()
        return frozenset(
            uid for uid in self._unordered - without if self._vertex.bounded or self.can_drop(uid, without)
        )

    def can_drop(self, uid: str, dropped: frozenset[str]) -> bool:
        """Return whether the query can be built if the inputs ``dropped`` and ``uid`` are left out.

        No function may lose all inputs of one parameter and keep inputs of another parameter.
        """
        try:
            return self._remains(self._vertex.uid, dropped | {uid}, top=True)
        except _NotDroppable:
            return False

    def _remains(self, uid: str, without: frozenset[str], top: bool = False) -> bool:
        operator = self._operators[uid]
        if operator.kind == "source":
            return uid not in without
        remaining = [
            [self._input_remains(uid, input_uid, without) for input_uid in uids] for uids in operator.inputs.values()
        ]
        if all(any(flags) for flags in remaining):
            return True
        if top or any(any(flags) for flags in remaining):
            raise _NotDroppable
        return False

    def _input_remains(self, consumer: str, uid: str, without: frozenset[str]) -> bool:
        if uid in self._vertex.operators:
            return self._remains(uid, without)
        return self._edges[consumer, uid] not in without

    def _frame(self, uid: str) -> DataFrame | None:
        if uid not in self._built:
            self._built[uid] = self._make(uid)
        return self._built[uid]

    def _input(self, consumer: str, uid: str) -> DataFrame | None:
        if uid in self._vertex.operators:
            return self._frame(uid)
        edge = self._edges[consumer, uid]
        if edge in self._without:
            return None
        self.inputs[edge] = self._edge_frame(edge, edge in self._holding)
        return self.inputs[edge]

    def _make(self, uid: str) -> DataFrame | None:
        operator = self._operators[uid]
        if operator.kind == "source":
            if uid in self._without:
                return None
            self.inputs[uid] = self._calls(operator, hold=uid in self._holding)
            return self.inputs[uid]
        arguments: dict[str, DataFrame] = {}
        streams_by_input: dict[str, Counter[str]] = {}
        for parameter, uids in operator.inputs.items():
            frames = {input_uid: frame for input_uid in uids if (frame := self._input(uid, input_uid)) is not None}
            if not frames:
                return None
            streams_by_input |= {input_uid: streams(frame) for input_uid, frame in frames.items()}
            arguments[parameter] = self._unite(uid, parameter, frames) if len(uids) > 1 else frames[uids[0]]
        frame = self._calls.transform(operator, arguments)
        if self._calls.streaming:
            _check_stream(operator, frame)
            _refuse_other_streams(operator, streams_by_input, streams(frame))
        return frame

    def _unite(self, uid: str, parameter: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        union = self._recorded_unions.get((uid, parameter))
        is_whole = len(frames) == len(self._operators[uid].inputs[parameter])
        if self._calls.streaming:
            frames = with_event_time_of_others(frames, lambda input_uid: self._may_get_event_time(uid, input_uid))
        if is_whole or union is None:
            united = unite(with_like_fields(self._operators[uid], frames))
        else:
            united = unite(without_ended(frames, union))
        inputs = {input_uid: frame.schema for input_uid, frame in frames.items()}
        self.unions[uid, parameter] = Union(united.schema, inputs)
        return united

    def _may_get_event_time(self, consumer: str, uid: str) -> bool:
        """Return whether all rows of a consumer's input come from one source or edge that holds back event time."""
        leaves = self._leaves(consumer, uid)
        return len(leaves) == 1 and leaves <= self._inputs_that_hold(self._without)

    def _leaves(self, consumer: str, uid: str) -> frozenset[str]:
        """Return the sources and edges whose rows reach ``consumer`` through its input ``uid``."""
        if uid not in self._vertex.operators:
            return frozenset({self._edges[consumer, uid]})
        inputs = self._operators[uid].input_uids
        return (
            frozenset().union(*(self._leaves(uid, input_uid) for input_uid in inputs)) if inputs else frozenset({uid})
        )

    def _output_mode(self) -> str:
        modes = [self._operators[uid].output_mode for uid in self._vertex.operators]
        return next((mode for mode in reversed(modes) if mode != "append"), "append")


def _check_stream(operator: Operator, frame: DataFrame) -> None:
    if not frame.isStreaming:
        raise UnsupportedQueryError(
            "operator {uid!r} ({location}) gave a batch DataFrame where a stream is needed; use the reader it is "
            "given (read.format(...).load(...)), not spark.read",
            uid=operator.uid,
            location=operator.location,
        )


def _refuse_other_streams(
    operator: Operator, streams_by_input: Mapping[str, Counter[str]], reads: Counter[str]
) -> None:
    """Refuse an operator whose result does not read each stream of its inputs as often as the inputs do.

    Spark notices a stream that is read twice only when the query starts, and then each attempt fails. If a stream is
    not read, Spark forgets its read position. ``reads``: stream -> how often the result reads the stream.
    """
    about: dict[str, Any] = {"uid": operator.uid, "location": operator.location}
    unread = sorted(uid for uid, input_streams in streams_by_input.items() if input_streams - reads)
    if unread:
        raise UnsupportedQueryError(
            "the result of {uid!r} ({location}) does not read its input {unread}: rows of it would be skipped or, "
            "once it is read again, come twice, and a bounded input would never end. Read it, with a filter that no "
            "row passes if none of its rows are wanted, or remove it from the inputs of {uid!r}",
            unread=", ".join(map(repr, unread)),
            **about,
        )
    all_streams = sum(streams_by_input.values(), Counter())
    if reads - all_streams:
        raise UnsupportedQueryError(
            "the result of {uid!r} ({location}) reads live inputs {reads} times and was given {given}: it joins or "
            "unites an input with itself, which no streaming query can, or reads a stream of its own, which only a "
            "@job.source may. For a self-join put a transform that returns its input unchanged in front of one side, "
            "and give that to {uid!r} as another input",
            given=all_streams.total(),
            reads=reads.total(),
            **about,
        )


class _NotDroppable(Exception):
    """A function that would lose all inputs of one parameter, but keep inputs of another parameter."""
