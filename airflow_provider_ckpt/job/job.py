"""A job as a user writes it: sources, transforms and sinks. The module imports neither Airflow nor Spark."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, overload

from airflow_provider_ckpt.job import checks
from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.operator_inputs import SINK_EXAMPLE, TRANSFORM_EXAMPLE, Input, InputReader, Inputs
from airflow_provider_ckpt.job.operators import (
    MAX_AHEAD,
    Ends,
    LateRows,
    OnMalformed,
    Operator,
    OperatorRegistry,
    OutputMode,
    ReleasePolicy,
    SourceOptions,
    TemporaryFiles,
    UnfinishedFiles,
)
from airflow_provider_ckpt.job.options.params import (
    NOT_GIVEN,
    NotGiven,
    Params,
    caller_location,
    current_params,
    function_location,
)
from airflow_provider_ckpt.job.options.run_options import Mode, RuntimeMode, check_mode
from airflow_provider_ckpt.job.options.units import Duration, Size
from airflow_provider_ckpt.job.signatures import (
    check_source,
    check_split_source,
    check_transform,
    name_of,
    single_parameter,
)
from airflow_provider_ckpt.job.sink_folders import check_sink_folders
from airflow_provider_ckpt.job.sink_operator import Gate
from airflow_provider_ckpt.job.sink_transactions import check_transactions
from airflow_provider_ckpt.job.split_source import split_source
from airflow_provider_ckpt.job.validation import check_controlled, check_job
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.own_modules import OwnModules
from airflow_provider_ckpt.storage.location import Location

Function = Callable[..., Any]
Decorator = Callable[[Function], Operator]
Splits = Sequence[Any] | Callable[[], Sequence[Any]]


class Job:
    """A job: its sources, transforms and sinks, in order of definition.

    The decorators and :meth:`sink` refuse a wrong operator at once. :meth:`validate` checks what depends on several
    operators. Each refusal is an :class:`~..errors.InvalidInputError` that names the operator, its file and its line.
    """

    def __init__(self, name: str | None = None, *, controllers: Sequence[Controller] = ()) -> None:
        """Create a job without operators.

        ``name`` is the default id of the job. ``controllers`` are policies that watch and change the job while it runs.

        Raises InvalidJobError if the name is empty or no text, and BadControllerError if ``controllers`` is no list of
        controllers or a controller's times are no seconds.
        """
        if name is not None and not (isinstance(name, str) and name.strip()):
            raise InvalidJobError(
                "job {job!r} has no {missing}. Add one with {example}.",
                job=name,
                missing="name",
                example='Job("orders") or Job()',
            )
        self.name = name
        self.controllers = checks.check_controllers(controllers)
        self._registry = OperatorRegistry()
        self._params = current_params()
        self._root: Location | None = None
        self.code: JobCode | None = None
        """Code of the job's file, set when a driver has loaded the job. None if the source cannot be read."""
        self.own_modules: OwnModules | None = None
        """The job's own modules, for executors. None if functions are pickled with everything that they use."""

    @overload
    def param(self, name: str) -> str: ...

    @overload
    def param(self, name: str, default: str) -> str: ...

    @overload
    def param(self, name: str, default: None) -> str | None: ...

    def param(self, name: str, default: str | NotGiven | None = NOT_GIVEN) -> str | None:
        """Return the value of a parameter in this run: ``--param name=…`` or ``job_params={"name": …}``.

        Call this at the top level of the job's file, where the value can also name a sink's path. Parameters are
        recorded in the journal and shown, so they must not be secret. ``default`` is the value if the run gives none.

        Raises InvalidJobError if there is neither a value nor a default, or if a function reads a parameter that the
        top level of the file has not read.
        """
        return self._params.read(self.name, name, default)

    @property
    def params(self) -> Mapping[str, str | None]:
        """Name of a parameter that the job reads -> its value in this run. A read-only view."""
        return self._params.known

    @property
    def root(self) -> Location:
        """Checkpoint root of the run, with the options of its file system.

        Functions use the root to read other jobs (:func:`~airflow_provider_ckpt.read_persisted`). The root is available
        in the functions of sources, transforms and ``splits``, while a driver runs the job.

        Raises InvalidJobError if no driver runs the job in this process.
        """
        if self._root is None:
            raise InvalidJobError(
                "job.root of job {job!r} is read at {location}, and no driver runs the job there: read it in a "
                "function of a source, a transform or splits",
                job=self.name,
                location=caller_location(),
            )
        return self._root

    def runs_under(self, root: Location) -> None:
        """Set the value of :attr:`root`. A driver calls this before any function of the job."""
        self._root = root

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that is pickled for executors if a function uses the job.

        The root is omitted because its options may contain secrets, and the controllers because they belong to the
        driver.
        """
        return {**self.__dict__, "_root": None, "controllers": (), "own_modules": None}

    def was_given(self, params: Params) -> bool:
        """Return True if ``params`` were the run's parameters when the job was created."""
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
        """Define a source: decorate a function ``(reader) -> DataFrame``, with or without parentheses.

        ``reader`` is Spark's stream reader, or its batch reader in mode "batch", already named after the uid. The
        driver calls the function at every start of the query. Each call must define exactly one source, always the
        same.

        Args:
            bounded: True if the source ends. It then has only the data that exist when the job first starts.
            uid: Identity of the operator. The function's name by default.
            chain: False to run the source in a Spark query of its own.
            max_bytes_per_trigger: Maximum size, in bytes or as "64m", that one micro-batch of a file source reads.
                Excludes ``max_files_per_trigger``.
            max_files_per_trigger: Maximum number of files that one micro-batch of a file source reads.
            watermark: Column and delay of the event time, such as ``("ts", "1 hour")``. No row of a bounded source is
                late, whatever the order of its files. Windows stay open until the source has ended.
            in_order: True if a bounded source's files, ordered by modification time, are also in the order of event
                time, within the watermark's delay. Windows then close while the source is read.
            late_rows: ``"warn"`` reports rows that the source's query drops as late, and rows whose event time is
                missing or unfit. ``"fail"`` fails the job before anything of their micro-batch is released.
            unfinished_files: Reaction to a file that changes after it was read, because it was still being written or
                was replaced. ``"warn"`` (default of a live source) reports it. ``"fail"`` (default of a bounded source)
                fails the job. ``"wait"`` reads a file only when it has not changed for ten seconds, and reports later
                changes.
            temporary_files: ``"read"`` to also read files whose names end in ``.tmp``, ``.crdownload``, ``.part``,
                ``.filepart`` or ``.partial``. By default such files are skipped, unless the reader has a
                ``pathGlobFilter``.
            max_ahead: How far an event time may be ahead of the clock and still move the watermark ("1 day"). None
                means no limit.
            idle_timeout: Time without a row after which a live source no longer holds back the watermark of a query
                with other sources. None means that the source always does.
            on_malformed: ``"fail"`` (default of a bounded source) fails the job at the first row of a CSV or JSON file
                that does not fit the schema. ``"count"`` (default of a live source) reads its values as nulls and
                reports the number of such rows. ``"quarantine"`` sends such rows to the sink of :meth:`quarantine`, and
                counts them.
            ends: ``"available_now"``, for a bounded source that reads neither files nor Kafka, so that its end cannot
                be frozen. Each run of its query reads up to the end that the data have when the query starts (Spark's
                trigger ``availableNow``).
            allow_empty: True if a bounded source may have nothing to read when the job first starts. Otherwise such a
                job is refused, and the next try reads the folder or topic again.
            after: A bounded source that reads the same folder as this live source, or a part of it. The live source
                skips the files of ``after`` that exist when the job first starts, so that each file is read once.
            reads_again: True if this and a bounded source read the same files, and their functions select different
                rows. A job that unites the rows of two such sources is refused without ``after`` or ``reads_again``.
            splits: A list of values that survive JSON, or a function without arguments that returns such a list. The
                driver calls that function when it plans the job. The decorated function is then a batch function
                ``(read, split) -> DataFrame``, called for each split. Only for a bounded source, which becomes a vertex
                of its own.
            parallelism: Number of subtasks that read the splits. Default 1.
            max_splits_per_batch: Maximum number of small splits that one Spark job reads together. The default is 64 if
                several subtasks read the source, else 1. 1 means that each split is read alone.
            batched: True if the decorated function is ``(read, splits) -> DataFrame``. The function is then called once
                for all splits that are read together (1,024 at most).
            persist: True to keep the source's output after the job has FINISHED, until the job is deleted. Other jobs
                can read it (:func:`~airflow_provider_ckpt.read_persisted`). Only for output that ends.

        Raises InvalidJobError if the list of splits cannot be used, and other subclasses of InvalidInputError for a bad
        argument.
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
        """Define a transform: decorate a function of DataFrames that returns a DataFrame.

        The driver calls the function once for every start of the query, with the inputs that have not finished.

        Args:
            inputs: ``[a, b]`` unites the inputs by column name into the function's one parameter. ``{"orders": [a, b],
                "customers": c}`` passes one DataFrame for each name, by keyword. An input is an operator, or the uid of
                an operator that may be defined later.
            uid: Identity of the operator. The function's name by default.
            chain: False to run the transform in a Spark query of its own, like Flink's disableChaining.
            output_mode: Spark's output mode of the query that ends in this operator.
            persist: See :meth:`source`.
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
        """Define a sink: write the output of ``input``, an operator or its uid, to ``sink``, such as a ``FileSink``.

        Args:
            uid: Identity of the sink.
            release: "every_checkpoint" makes the output of a checkpoint visible as soon as it is completed, in all
                sinks of the job. "final" makes the whole output visible at once, when the job has finished.
            gate: A function of a ``PendingRelease`` that returns True to release now. While it returns False,
                checkpoints continue and their output stays staged.
            transaction: A name that several sinks share. They are released in one transaction of their common database,
                so that a checkpoint is visible in all of them or in none. If one sink is delayed or fails, all of them
                are.
        """
        location = caller_location()
        self._registry.check_uid(uid, location)
        checks.check_sink(uid, location, sink)
        checks.check_release(uid, location, release)
        checks.check_gate(uid, location, gate)
        checks.check_transaction(uid, location, transaction)
        reader = InputReader(uid, location, self._registry.view, SINK_EXAMPLE)
        if input is None:
            raise reader.no_input()
        return self._registry.add(
            Operator(
                uid=uid,
                kind="sink",
                location=location,
                sink=sink,
                inputs={"frame": (reader.uid_of(input),)},
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
        """Define a sink that gets the malformed rows of ``source``, an operator or its uid, exactly once.

        The source must have ``on_malformed="quarantine"``. The source's output then lacks these rows. The sink gets the
        columns ``file``, ``row`` (the row's text) and ``reason``. See :meth:`sink` for the other arguments.
        """
        operator = self.sink(uid, source, sink, release=release, gate=gate, transaction=transaction)
        return self._registry.add(replace(operator, quarantine=True))

    @property
    def operators(self) -> Mapping[str, Operator]:
        """Uid -> operator, in order of definition. A read-only view."""
        return self._registry.view

    def with_operators(self, operators: Mapping[str, Operator]) -> Job:
        """Return a copy of the job with other operators, which must have the same uids."""
        job = copy.copy(self)
        job.controllers = self.controllers  # because __getstate__ leaves them out of the copy
        job._registry = OperatorRegistry()
        for uid in self._registry.view:
            job._registry.add(operators[uid])
        return job

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
        """Check the job as a whole, and validate each sink. Write nothing.

        Raises InvalidInputError for the first problem.
        """
        check_job(self.name, self.operators)
        check_controlled(self.controllers, self.operators)
        for operator in self.sinks:
            operator.sink.validate()
            checks.check_folders(operator.uid, operator.location, operator.sink)
        check_sink_folders(self.sinks)
        check_transactions(self.sinks)

    def runtime_mode(self, mode: Mode = "auto") -> RuntimeMode:
        """Return the mode of a run. "auto" is "batch" if all sources are bounded, else "streaming" (FLIP-134).

        Raises InvalidJobError if ``mode`` is "batch" and a source is unbounded.
        """
        unbounded = [source.uid for source in self.sources if not source.bounded]
        check_mode(mode)
        if mode == "batch" and unbounded:
            raise InvalidJobError(
                "mode 'batch' needs sources with an end, and job {job!r} has others: {sources}. Use mode 'auto' or "
                "'streaming', or declare them with bounded=True.",
                job=self.name,
                sources=", ".join(unbounded),
            )
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
            raise reader.no_input()
        if isinstance(inputs, Mapping):
            named = reader.by_parameter(inputs)
            check_transform(uid, location, function, named)
            return named
        united = reader.for_one_parameter(inputs)
        return {single_parameter(uid, location, function): united}
