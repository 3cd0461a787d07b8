"""A job: sources, transforms and sinks, as a user writes them. Imports neither Airflow nor Spark."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, overload

from airflow_provider_ckpt.job import checks
from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.job.errors import (
    IncompleteJobError,
    MissingInputsError,
    NoRunError,
    UnboundedBatchError,
)
from airflow_provider_ckpt.job.gate import Gate
from airflow_provider_ckpt.job.inputs import SINK_EXAMPLE, TRANSFORM_EXAMPLE, Input, InputReader, Inputs
from airflow_provider_ckpt.job.locations import caller_location, function_location
from airflow_provider_ckpt.job.operators import (
    MAX_AHEAD,
    Ends,
    LateRows,
    OnMalformed,
    Operator,
    OutputMode,
    ReleasePolicy,
    SourceOptions,
    TemporaryFiles,
    UnfinishedFiles,
)
from airflow_provider_ckpt.job.options import Mode, RuntimeMode, check_mode
from airflow_provider_ckpt.job.params import NOT_GIVEN, NotGiven, Params, current_params
from airflow_provider_ckpt.job.registry import OperatorRegistry
from airflow_provider_ckpt.job.signatures import (
    check_source,
    check_split_source,
    check_transform,
    name_of,
    single_parameter,
)
from airflow_provider_ckpt.job.sink_folders import check_sink_folders
from airflow_provider_ckpt.job.sink_transactions import check_transactions
from airflow_provider_ckpt.job.splits import split_source
from airflow_provider_ckpt.job.units import Duration, Size
from airflow_provider_ckpt.job.validation import check_controlled, check_job
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.own_modules import OwnModules
from airflow_provider_ckpt.storage.location import Location

Function = Callable[..., Any]
Decorator = Callable[[Function], Operator]
Splits = Sequence[Any] | Callable[[], Sequence[Any]]


class Job:
    """The operators of one job, in order of definition.

    The decorators and :meth:`sink` refuse at once what no later definition could make right;
    :meth:`validate` checks the rest. All refusals are :class:`~..errors.InvalidInputError` and name the
    operator and its file and line.
    """

    def __init__(self, name: str | None = None, *, controllers: Sequence[Controller] = ()) -> None:
        """``controllers``: they watch the job while it runs, and change it by themselves. Raises
        IncompleteJobError, BadControllerError."""
        if name is not None and not (isinstance(name, str) and name.strip()):
            raise IncompleteJobError(job=name, missing="name", example='Job("orders") or Job()')
        self.name = name
        self.controllers = checks.check_controllers(controllers)
        self._registry = OperatorRegistry()
        self._params = current_params()
        self._root: Location | None = None
        self.code: JobCode | None = None
        """What a driver has read of the file that defines the job; None: nobody has, or there is no source."""
        self.own_modules: OwnModules | None = None
        """Modules that Python workers need. None: the functions go to them with all that they use."""

    @overload
    def param(self, name: str) -> str: ...

    @overload
    def param(self, name: str, default: str) -> str: ...

    @overload
    def param(self, name: str, default: None) -> str | None: ...

    def param(self, name: str, default: str | NotGiven | None = NOT_GIVEN) -> str | None:
        """The text that this run gives under ``name``: ``--param name=…``, ``job_params={"name": …}``.

        Called at the top level of the file, where the value can also name a sink's path. Parameters are
        recorded in the journal and shown: no secrets. Raises MissingParamError when there is neither a value nor a
        default, LateParamError when a function asks for a name that the file did not.
        """
        return self._params.read(self.name, name, default)

    @property
    def params(self) -> Mapping[str, str | None]:
        """Every parameter the job asked for -> its value in this run; a read-only view."""
        return self._params.known

    @property
    def root(self) -> Location:
        """The checkpoint root of the run, with the options of its file system: for functions that look at other jobs
        under it (:func:`~airflow_provider_ckpt.read_persisted`). Only while a driver runs the job, in the functions of
        sources, transforms and ``splits``. Raises NoRunError anywhere else."""
        if self._root is None:
            raise NoRunError(job=self.name, location=caller_location())
        return self._root

    def runs_under(self, root: Location) -> None:
        """Called by a driver before it calls any function of the job."""
        self._root = root

    def __getstate__(self) -> dict[str, Any]:
        """What executors are sent of a job that a function names: the root's options may hold secrets, and controllers
        are the driver's."""
        return {**self.__dict__, "_root": None, "controllers": (), "own_modules": None}

    def was_given(self, params: Params) -> bool:
        """Whether the job was made while ``params`` were those of the run; for the loading of its file."""
        return self._params is params

    @overload
    def source(self, function: Function, /) -> Operator: ...

    @overload
    def source(
        self,
        *,
        bounded: bool = False,
        uid: str | None = None,
        chain: bool = True,
        max_bytes_per_trigger: Size | None = None,
        max_files_per_trigger: int | None = None,
        watermark: tuple[str, Duration] | None = None,
        in_order: bool = False,
        late_rows: LateRows = "warn",
        unfinished_files: UnfinishedFiles | None = None,
        temporary_files: TemporaryFiles = "skip",
        max_ahead: Duration | None = MAX_AHEAD,
        idle_timeout: Duration | None = None,
        on_malformed: OnMalformed | None = None,
        ends: Ends | None = None,
        allow_empty: bool = False,
        after: Input | None = None,
        reads_again: bool = False,
        splits: Splits | None = None,
        parallelism: int | None = None,
        max_splits_per_batch: int | None = None,
        batched: bool = False,
        persist: bool = False,
    ) -> Decorator: ...

    def source(
        self,
        function: Function | None = None,
        *,
        bounded: bool = False,
        uid: str | None = None,
        chain: bool = True,
        max_bytes_per_trigger: Size | None = None,
        max_files_per_trigger: int | None = None,
        watermark: tuple[str, Duration] | None = None,
        in_order: bool = False,
        late_rows: LateRows = "warn",
        unfinished_files: UnfinishedFiles | None = None,
        temporary_files: TemporaryFiles = "skip",
        max_ahead: Duration | None = MAX_AHEAD,
        idle_timeout: Duration | None = None,
        on_malformed: OnMalformed | None = None,
        ends: Ends | None = None,
        allow_empty: bool = False,
        after: Input | None = None,
        reads_again: bool = False,
        splits: Splits | None = None,
        parallelism: int | None = None,
        max_splits_per_batch: int | None = None,
        batched: bool = False,
        persist: bool = False,
        **unknown: object,
    ) -> Operator | Decorator:
        """Decorate a function ``(reader) -> DataFrame``; with or without parentheses.

        The reader is Spark's, already named after the uid: streaming in a streaming query, batch in mode
        "batch". The function is called in the driver, once for every start of the query; it must define
        the same source each time, and no other.

        ``bounded``: the data end; what is there when the job starts is the whole of it.
        ``uid``: defaults to the function's name. ``chain=False``: a Spark query of its own.
        ``max_bytes_per_trigger`` (bytes or "64m"), ``max_files_per_trigger``: how much one micro-batch of a
        file source reads; one of the two.

        ``watermark``: ``("ts", "1 hour")``, event time of the source. No row of a bounded source is late, in whatever
        order its files are read: windows stay open until the source has ended. With ``in_order=True`` they close while
        it is read: the files, in the order of their modification times, are in the order of event time, within the
        delay.
        ``late_rows``: ``"warn"`` reports rows that the source's query drops as late, and rows whose event
        time is missing or unfit. ``"fail"`` fails the job before anything of their micro-batch is released.
        ``max_ahead``: event times that are further ahead of the clock do not move the watermark ("1 day"; None: each
        one does). ``idle_timeout``: after that time without a row a live source does not hold the watermark of a query
        that reads other sources, too.

        ``unfinished_files``: what happens when a file changes after it was read, because it was still being written, or
        was replaced. ``"warn"`` (default of a live source) reports it, ``"fail"`` (default of a bounded one) fails the
        job, ``"wait"`` reads a file only when it has not changed for ten seconds, and reports later changes.
        ``temporary_files="read"``: also read files whose names end in ``.tmp``, ``.crdownload``, ``.part``,
        ``.filepart`` or ``.partial``. They are left out, unless the reader has a ``pathGlobFilter``.
        ``on_malformed``: ``"fail"`` fails the job at the first row of a CSV or JSON file that does not fit the schema,
        ``"count"`` reads its values as nulls and reports the number of such rows, ``"quarantine"`` gives such rows to
        the sink of :meth:`quarantine`, and counts them. A bounded source fails by default, a live one counts.

        ``ends="available_now"``: of a bounded source that reads neither files nor Kafka, whose end cannot be frozen: at
        each start of its query it ends where the data end then (Spark's trigger of that name).
        ``allow_empty=True``: a bounded source may have nothing to read when the job first starts. Without it, such a
        job is refused, and the next try reads the folder or topic again.

        ``after=history``: this live source reads the folder of ``history``, or a part of it, and leaves out the files
        of ``history``: those that are there when the job first starts. Each file is read by one of the two.
        ``reads_again=True``: the functions of the two select different rows, and both read all files. Without either,
        a job that unites the rows of two such sources is refused.

        ``splits``: a list of values that survive JSON, or a function without arguments that returns one; it is called
        in the driver, when the job is planned. Then the function is ``(read, split) -> DataFrame``, a batch one, and
        is called for each split; ``parallelism`` subtasks read them (1). With more than one, small splits are read
        together, as one Spark job: ``max_splits_per_batch`` of them at the most (64; 1: never). ``batched``: the
        function is ``(read, splits) -> DataFrame``, of a list of one or more, and is called once for what is read
        together (1,024 at the most). Only of a bounded source, which becomes a vertex of its own. Raises
        BadSplitsError.

        ``persist``: what it gives is kept when the job has FINISHED, for other jobs to read
        (:func:`~airflow_provider_ckpt.read_persisted`), until the job is deleted. Only of what ends.
        """
        checks.check_known("@job.source", unknown, Job.source)

        def define(function: Function) -> Operator:
            name, location = self._identify(function, uid)
            options = SourceOptions(*checks.read_limits(name, location, max_bytes_per_trigger, max_files_per_trigger))
            checks.check_flag(name, location, "bounded", bounded)
            checks.check_ends(name, location, ends, bounded=bounded)
            checks.check_in_order(name, location, in_order, bounded=bounded)
            checks.check_late_rows(name, location, late_rows)
            checks.check_unfinished_files(name, location, unfinished_files)
            checks.check_temporary_files(name, location, temporary_files)
            checks.check_on_malformed(name, location, on_malformed)
            checks.check_allow_empty(name, location, allow_empty, bounded=bounded)
            checks.check_flag(name, location, "reads_again", reads_again)
            before = checks.read_after(name, location, after, bounded=bounded, reads_again=reads_again)
            given = {
                "watermark": watermark,
                "in_order": in_order or None,
                "late_rows": None if late_rows == "warn" else late_rows,
                "unfinished_files": unfinished_files,
                "temporary_files": None if temporary_files == "skip" else temporary_files,
                "max_ahead": None if max_ahead == MAX_AHEAD else max_ahead,
                "idle_timeout": idle_timeout,
                "ends": ends,
                "allow_empty": allow_empty or None,
                "after": before,
                "reads_again": reads_again or None,
                **options.given,
            }
            by_split = split_source(name, location, splits, parallelism, max_splits_per_batch, batched, bounded, given)
            if by_split is None:
                check_source(name, location, function)
            else:
                check_split_source(name, location, function)
            checks.check_flag(name, location, "chain", chain)
            checks.check_flag(name, location, "persist", persist)
            return self._registry.add(
                Operator(
                    uid=name,
                    kind="source",
                    location=location,
                    function=function,
                    bounded=bounded,
                    chain=chain,
                    options=options,
                    watermark=checks.read_watermark(name, location, watermark),
                    in_order=in_order,
                    late_rows=late_rows,
                    unfinished_files=unfinished_files,
                    temporary_files=temporary_files,
                    max_ahead=checks.read_max_ahead(name, location, max_ahead),
                    idle_timeout=checks.read_idle_timeout(name, location, idle_timeout, bounded=bounded),
                    on_malformed=on_malformed,
                    ends=ends,
                    allow_empty=allow_empty,
                    after=before,
                    reads_again=reads_again,
                    splits=by_split,
                    persist=persist,
                )
            )

        return define if function is None else define(function)

    def transform(
        self,
        inputs: Inputs | None = None,
        *,
        uid: str | None = None,
        chain: bool = True,
        output_mode: OutputMode = "append",
        persist: bool = False,
        **unknown: NoReturn,
    ) -> Decorator:
        """Decorate a function of DataFrames that returns a DataFrame.

        ``inputs=[a, b]``: united by column name into the function's one parameter.
        ``inputs={"orders": [a, b], "customers": c}``: one DataFrame per name, passed by keyword.
        An input is a handle or the uid of an operator, which may be defined later.

        The function is called in the driver, once for every start of the query, with the inputs that have
        not finished yet. ``output_mode``: Spark's, of the query that ends in this operator.
        ``chain=False``: a Spark query of its own, as Flink's disableChaining. ``persist``: as of a source.
        """
        checks.check_known("@job.transform", unknown, Job.transform)
        bare = callable(inputs) and not isinstance(inputs, (Operator, str))

        def define(function: Function) -> Operator:
            name, location = self._identify(function, uid)
            checks.check_output_mode(name, location, output_mode)
            checks.check_flag(name, location, "chain", chain)
            checks.check_flag(name, location, "persist", persist)
            return self._registry.add(
                Operator(
                    uid=name,
                    kind="transform",
                    location=location,
                    function=function,
                    inputs=self._read_inputs(name, location, function, None if bare else inputs),
                    chain=chain,
                    output_mode=output_mode,
                    persist=persist,
                )
            )

        return define(inputs) if bare else define  # type: ignore[arg-type]

    def sink(
        self,
        uid: str,
        input: Input,  # noqa: A002
        sink: Any,
        *,
        release: ReleasePolicy = "every_checkpoint",
        gate: Gate | None = None,
        transaction: str | None = None,
    ) -> Operator:
        """Write what ``input`` (a handle or an uid) emits to ``sink``, such as a ``FileSink``.

        ``release``: "every_checkpoint" shows what a checkpoint covers as soon as it is completed, in all
        sinks of the job; "final" shows the whole run at once, when the job has finished. ``gate``: a function that is
        given a ``PendingRelease`` and says whether it may be released now; while it says False, checkpoints go on, and
        what they cover stays staged. ``transaction``: a name; sinks that give the same one are released in one
        transaction of their database, which all of them have to be in: nobody sees a checkpoint in one and not in
        another. What holds up or fails one of them does so to all.
        """
        location = caller_location()
        self._registry.check_uid(uid, location)
        checks.check_sink(uid, location, sink)
        checks.check_release(uid, location, release)
        checks.check_gate(uid, location, gate)
        checks.check_transaction(uid, location, transaction)
        reader = InputReader(uid, location, self._registry.view, SINK_EXAMPLE)
        if input is None:
            raise MissingInputsError(operator=uid, location=location, example=SINK_EXAMPLE)
        return self._registry.add(
            Operator(
                uid=uid,
                kind="sink",
                location=location,
                sink=sink,
                inputs={"frame": (reader.one(input),)},
                release=release,
                gate=gate,
                transaction=transaction,
            )
        )

    def quarantine(
        self,
        uid: str,
        source: Input,
        sink: Any,
        *,
        release: ReleasePolicy = "every_checkpoint",
        gate: Gate | None = None,
        transaction: str | None = None,
    ) -> Operator:
        """Write the malformed rows of ``source`` (a handle or an uid) to ``sink``, exactly once.

        The source says ``on_malformed="quarantine"``, and its output is without these rows. ``sink`` is given the
        columns ``file``, ``row`` (its text) and ``reason``. The other arguments are those of :meth:`sink`.
        """
        given = self.sink(uid, source, sink, release=release, gate=gate, transaction=transaction)
        return self._registry.add(replace(given, quarantine=True))

    @property
    def operators(self) -> Mapping[str, Operator]:
        """Uid -> operator, in order of definition; a read-only view."""
        return self._registry.view

    def with_operators(self, operators: Mapping[str, Operator]) -> Job:
        """The same job with these in the place of its own: of the same uids, in the same order."""
        other = copy.copy(self)
        other.controllers = self.controllers  # which a copy is without
        other._registry = OperatorRegistry()
        for uid in self._registry.view:
            other._registry.add(operators[uid])
        return other

    @property
    def sources(self) -> tuple[Operator, ...]:
        return self._registry.of_kind("source")

    @property
    def transforms(self) -> tuple[Operator, ...]:
        return self._registry.of_kind("transform")

    @property
    def sinks(self) -> tuple[Operator, ...]:
        return self._registry.of_kind("sink")

    def validate(self) -> None:
        """Check the job as a whole and let each sink check itself. Writes nothing."""
        check_job(self.name, self.operators)
        check_controlled(self.controllers, self.operators)
        for operator in self.sinks:
            operator.sink.validate()
            checks.check_folders(operator.uid, operator.location, operator.sink)
        check_sink_folders(self.sinks)
        check_transactions(self.sinks)

    def runtime_mode(self, mode: Mode = "auto") -> RuntimeMode:
        """ "auto" is "batch" if all sources are bounded and "streaming" otherwise (FLIP-134)."""
        unbounded = [source.uid for source in self.sources if not source.bounded]
        check_mode(mode)
        if mode == "batch" and unbounded:
            raise UnboundedBatchError(job=self.name, sources=", ".join(unbounded))
        if mode == "auto":
            return "streaming" if unbounded else "batch"
        return mode

    def __repr__(self) -> str:
        return f"Job({self.name!r}, operators={list(self.operators)})"

    def _identify(self, function: Function, uid: str | None) -> tuple[str, str]:
        location = function_location(function) or caller_location()
        checks.check_function(uid, location, function)
        name = name_of(function) if uid is None else uid
        self._registry.check_uid(name, location)
        return name, location

    def _read_inputs(
        self, uid: str, location: str, function: Function, inputs: Inputs | None
    ) -> dict[str, tuple[str, ...]]:
        reader = InputReader(uid, location, self._registry.view, TRANSFORM_EXAMPLE)
        if inputs is None:
            raise MissingInputsError(operator=uid, location=location, example=TRANSFORM_EXAMPLE)
        if isinstance(inputs, Mapping):
            named = reader.named(inputs)
            check_transform(uid, location, function, named)
            return named
        united = reader.united(inputs)
        return {single_parameter(uid, location, function): united}
