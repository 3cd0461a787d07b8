"""The plan of a job's queries: united inputs, event time, refusals and dropped sources (R2, R13, R24)."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.app.session import session_conf
from airflow_provider_ckpt.spark.errors import UnfitSettingError
from airflow_provider_ckpt.spark.plan.builder import QueryBuilder, SourceCalls
from airflow_provider_ckpt.spark.plan.job_plan import JobPlan, plan_job
from airflow_provider_ckpt.spark.query.analysed_plan import has_watermark, is_stateful, watermark_over_union
from airflow_provider_ckpt.spark.query.errors import (
    FunctionFailedError,
    NothingToReadError,
    UnfitSourceError,
    UnsupportedQueryError,
)
from airflow_provider_ckpt.spark.query.unions import unite
from tests.spark.harness import World
from tests.spark.jobs import IDS, bounded, depths, joined, mixed, timed, windows


def plan(spark: SparkSession, world: World, job: Job, **options: Any) -> JobPlan:
    return plan_job(spark, job, world.options(**options))


def vertices(job_plan: JobPlan) -> dict[str, tuple[str, ...]]:
    return {vertex.uid: vertex.operators for vertex in job_plan.graph.vertices}


# ---- which query runs which operator


def test_file_history_next_to_a_live_source_is_inline(spark: SparkSession, world: World) -> None:
    assert vertices(plan(spark, world, mixed(world))) == {"doubled": ("history", "live", "doubled")}


def test_a_job_of_one_boundedness_is_one_query(spark: SparkSession, world: World) -> None:
    for mode in ("streaming", "batch"):
        assert vertices(plan(spark, world, bounded(world), mode=mode)) == {"doubled": ("history", "doubled")}
    job = Job("unbounded")
    one = job.source(uid="one")(lambda read: read.schema(IDS).parquet(world.path("a")))
    two = job.source(uid="two")(lambda read: read.schema(IDS).parquet(world.path("b")))
    both = job.transform(inputs=[one, two], uid="both")(lambda rows: rows)
    job.sink("out", both, FileSink(world.path("out")))
    assert vertices(plan(spark, world, job)) == {"both": ("one", "two", "both")}


def with_bounded_step(world: World, step: Callable[[DataFrame], DataFrame]) -> Job:
    job = Job("stepwise")
    history = job.source(bounded=True, uid="history")(lambda read: read.schema(IDS).parquet(world.path("history")))
    live = job.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live")))
    first = job.transform(inputs=[history], uid="first")(lambda rows: step(rows))
    both = job.transform(inputs=[first, live], uid="both")(lambda rows: rows)
    job.sink("out", both, FileSink(world.path("out")))
    return job


def test_bounded_steps_without_state_are_inline_too(spark: SparkSession, world: World) -> None:
    job_plan = plan(spark, world, with_bounded_step(world, lambda rows: rows.where("id > 1")))
    assert len(job_plan.graph.vertices) == 1


def test_r2_a_bounded_step_with_state_is_a_query_of_its_own(spark: SparkSession, world: World) -> None:
    """If the state were dropped together with its finished source, it would be lost."""
    job_plan = plan(spark, world, with_bounded_step(world, lambda rows: rows.dropDuplicates(["id"])))
    assert vertices(job_plan) == {"first": ("history", "first"), "both": ("live", "both")}


def test_a_bounded_source_without_a_file_list_is_a_query_of_its_own(spark: SparkSession, world: World) -> None:
    job = Job("ticks")
    ticks = job.source(bounded=True, ends="available_now", uid="ticks")(
        lambda read: read.format("rate-micro-batch").option("rowsPerBatch", 5).load().selectExpr("value id", "value k")
    )
    live = job.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live")))
    both = job.transform(inputs=[ticks, live], uid="both")(lambda rows: rows)
    job.sink("out", both, FileSink(world.path("out")))
    assert vertices(plan(spark, world, job)) == {"ticks": ("ticks",), "both": ("live", "both")}


def test_r24_sinks_of_different_depth_request_aligned_barriers(spark: SparkSession, world: World) -> None:
    assert plan(spark, world, depths(world)).aligned()
    assert not plan(spark, world, mixed(world, sinks=("out", "copy"))).aligned()


def test_planning_writes_nothing(spark: SparkSession, world: World) -> None:
    plan(spark, world, windows(world, chain=False))
    assert world.everything_under_root() == []


# ---- event time


def two_streams(spark: SparkSession, world: World) -> list[DataFrame]:
    def read(name: str) -> DataFrame:
        return timed(spark.readStream.name(name).schema(IDS).parquet(world.path(name)))

    return [read("one"), read("two")]


def test_a_watermark_on_united_inputs_is_set_on_each_input(spark: SparkSession, world: World) -> None:
    united = unite(two_streams(spark, world)).withWatermark("ts", "1 hour")
    assert has_watermark(united)
    assert not watermark_over_union(united)


def test_inputs_are_united_by_column_name(spark: SparkSession, world: World) -> None:
    one, two = two_streams(spark, world)
    assert unite([one, two.select("ts", "k", "id")]).columns == one.columns


def over_union(world: World, chain: bool) -> Job:
    job = Job("late")
    history = job.source(bounded=True, uid="history", chain=chain)(
        lambda read: timed(read.schema(IDS).parquet(world.path("history")))
    )
    live = job.source(uid="live")(lambda read: timed(read.schema(IDS).parquet(world.path("live"))))

    @job.transform(inputs=[history, live])
    def counts(rows: DataFrame) -> DataFrame:
        return rows.where("id > 0").withWatermark("ts", "1 hour").groupBy(F.window("ts", "1 day")).count()

    job.sink("out", counts, FileSink(world.path("out")))
    return job


@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own query"])
def test_a_watermark_that_would_make_history_late_is_refused(spark: SparkSession, world: World, chain: bool) -> None:
    with pytest.raises(UnsupportedQueryError, match=r"in 'counts' .* after the union"):
        plan(spark, world, over_union(world, chain))


@pytest.mark.parametrize("how", ["join", "union"])
@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own query"])
def test_an_input_joined_or_united_with_itself_is_refused(
    spark: SparkSession, world: World, chain: bool, how: str
) -> None:
    """Spark would refuse the query at every start."""
    job = Job("twice")
    live = job.source(uid="live", chain=chain)(lambda read: read.schema(IDS).parquet(world.path("live")))

    @job.transform(inputs=[live])
    def pairs(rows: DataFrame) -> DataFrame:
        return rows.join(rows.select("id"), "id") if how == "join" else rows.unionByName(rows)

    job.sink("out", pairs, FileSink(world.path("out")))
    with pytest.raises(UnsupportedQueryError, match=r"'pairs' .* reads live inputs 2 times and was given 1"):
        plan(spark, world, job)


@pytest.mark.parametrize("gives", ["rows", "rows.unionByName(rows.select('*'))"])
@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own query"])
def test_an_unread_input_is_refused(spark: SparkSession, world: World, chain: bool, gives: str) -> None:
    """Spark would forget the position of the unread input, and later start it from the beginning."""
    job = Job("unread")
    live = job.source(uid="live", chain=chain)(lambda read: read.schema(IDS).parquet(world.path("live")))
    other = job.source(uid="other", chain=chain)(lambda read: read.schema(IDS).parquet(world.path("other")))
    transformed = job.transform(inputs={"rows": [live], "more": [other]}, uid="one")(lambda rows, more: eval(gives))
    job.sink(
        "out",
        job.transform(inputs=[transformed], uid="two")(lambda rows: rows.where("id > 1")),
        FileSink(world.path("out")),
    )
    with pytest.raises(UnsupportedQueryError, match=r"'one' \(.*\) does not read its input 'other'"):
        plan(spark, world, job)


def test_a_transform_before_one_side_allows_a_self_join(spark: SparkSession, world: World) -> None:
    """The refusal recommends this.

    A DataFrame that does not stream may be read any number of times.
    """
    job = Job("twice")
    live = job.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live")))
    same = job.transform(inputs=[live], uid="same")(lambda rows: rows)

    @job.transform(inputs={"one": [live], "two": [same]})
    def pairs(one: DataFrame, two: DataFrame) -> DataFrame:
        table = one.sparkSession.range(3)
        return one.join(two.select("id"), "id").join(table, "id").join(table.select("id"), "id")

    job.sink("out", pairs, FileSink(world.path("out")))
    assert len(plan(spark, world, job).graph.vertices) == 2


def test_r13_a_result_partition_keeps_the_watermark_of_history(spark: SparkSession, world: World) -> None:
    """If the watermark were lost on the way, live event time alone would make history late."""
    job_plan = plan(spark, world, windows(world, chain=False))
    assert "history" in vertices(job_plan)
    assert "watermarkDelayMs" not in "".join(job_plan.schemas_json().values())


@pytest.mark.parametrize("watermarks", [True, False])
def test_r13_a_join_with_history_is_refused_only_with_a_watermark(
    spark: SparkSession, world: World, watermarks: bool
) -> None:
    if watermarks:
        with pytest.raises(UnsupportedQueryError, match="has a watermark and is the only input"):
            plan(spark, world, joined(world, watermarks=True))
    else:
        assert plan(spark, world, joined(world)).graph.vertices


# ---- dropping


def builder(spark: SparkSession, world: World, job: Job) -> QueryBuilder:
    (vertex,) = plan(spark, world, job).graph.vertices
    calls = SourceCalls(spark, streaming=True)

    def no_edge(uid: str, hold: bool) -> DataFrame:
        raise AssertionError(uid)

    return QueryBuilder(job.operators, vertex, (), calls, no_edge)


def test_r2_a_query_without_its_finished_source_reads_the_rest(spark: SparkSession, world: World) -> None:
    query = builder(spark, world, mixed(world))
    assert query.can_drop("history", frozenset())
    assert set(query.build().reads) == {"history", "live"}
    without = builder(spark, world, mixed(world)).build(frozenset({"history"}))
    assert set(without.reads) == {"live"}
    assert not query.can_drop("live", frozenset({"history"}))


def test_the_only_input_of_a_parameter_cannot_be_left_out(spark: SparkSession, world: World) -> None:
    assert not builder(spark, world, joined(world)).can_drop("history", frozenset())


def test_stateful_plans_are_recognized(spark: SparkSession, world: World) -> None:
    one, two = two_streams(spark, world)
    for stateful in (one.groupBy("k").count(), one.dropDuplicates(["id"]), one.join(two, "k"), one.distinct()):
        assert is_stateful(stateful)
    table = spark.range(3)
    for plain in (one.where("id > 1"), one.unionByName(two), one.join(table, "id")):
        assert not is_stateful(plain)


# ---- return values of functions


def source(world: World, function: Callable[[Any], Any], *, bounded_one: bool = False) -> Job:
    job = Job("wrong")
    handle = job.source(uid="wrong", bounded=bounded_one)(function)
    job.sink("out", handle, FileSink(world.path("out")))
    return job


def test_a_function_that_returns_no_dataframe_is_named(spark: SparkSession, world: World) -> None:
    table = (pyarrow.table({"id": [1]}), r"pyarrow\.Table; .* of Spark, such as spark\.createDataFrame\(table\)$")
    frame = (
        importlib.import_module("pandas").DataFrame({"id": [1]}),
        r"returned pandas\.DataFrame; it must return a DataFrame of Spark",
    )
    for given, name in ((None, "NoneType"), ([1], "list"), table, frame):

        def function(read: Any, given: object = given) -> object:
            return given

        with pytest.raises(UnsupportedQueryError, match=f"'wrong'.*{name}"):
            plan(spark, world, source(world, function))


def test_a_time_column_that_spark_cannot_write_is_refused(spark: SparkSession, world: World) -> None:
    """Spark accepts `current_time()` when it analyses the query, and fails when it writes the first batch."""

    def function(read: Any) -> Any:
        return read.schema("id long").parquet(world.path("history")).selectExpr("id", "current_time() AS at")

    world.put_ids("history", 1, 1)
    with pytest.raises(UnsupportedQueryError, match=r"'wrong'.*in column 'at'.*spark\.sql\.timeType\.enabled=true"):
        plan(spark, world, source(world, function, bounded_one=True))
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        assert plan(spark, world, source(world, function, bounded_one=True)).schemas["wrong"].names == ["id", "at"]
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")


def test_a_failing_function_keeps_its_own_traceback(spark: SparkSession, world: World) -> None:
    def broken(read: Any) -> Any:
        return 1 / 0

    with pytest.raises(FunctionFailedError, match="ZeroDivisionError") as caught:
        plan(spark, world, source(world, broken))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert __file__.rpartition("/")[2] in str(caught.value)


def test_a_missing_folder_is_refused_before_the_start(spark: SparkSession, world: World) -> None:
    missing = f"{world.base}/nowhere"
    with pytest.raises(NothingToReadError, match="nowhere, which does not exist"):
        plan(spark, world, source(world, lambda read: read.schema(IDS).parquet(missing)))


def test_a_source_reads_exactly_one_source_through_its_reader(spark: SparkSession, world: World) -> None:
    def two(read: Any) -> DataFrame:
        first: DataFrame = read.schema(IDS).parquet(world.path("a"))
        return first.unionByName(read.schema(IDS).parquet(world.path("b")))

    def none(read: Any) -> DataFrame:
        return spark.read.schema(IDS).parquet(world.path("a"))

    for function, loads in ((two, 2), (none, 0)):
        with pytest.raises(UnfitSourceError, match=f"loaded {loads} sources"):
            plan(spark, world, source(world, function))


def test_a_batch_frame_where_a_stream_is_needed_is_refused(spark: SparkSession, world: World) -> None:
    def collected(read: Any) -> DataFrame:
        read.schema(IDS).parquet(world.path("a"))
        return spark.range(3)

    with pytest.raises(UnsupportedQueryError, match=r"'wrong' .* gave a batch DataFrame"):
        plan(spark, world, source(world, collected))
    job = Job("wrong")
    live = job.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live")))
    swapped = job.transform(inputs=[live], uid="swapped")(lambda rows: spark.range(3))
    job.sink("out", swapped, FileSink(world.path("out")))
    with pytest.raises(UnsupportedQueryError, match=r"'swapped' .* gave a batch DataFrame"):
        plan(spark, world, job)


# ---- the session


def test_a_setting_that_cannot_be_honoured_is_refused_by_name() -> None:
    with pytest.raises(UnfitSettingError, match="enableSourceEvolution"):
        session_conf({"spark.sql.streaming.queryEvolution.enableSourceEvolution": "false"})


def test_a_query_that_spark_refuses_at_its_start_is_refused_when_planned(spark: SparkSession, world: World) -> None:
    """A window's start is not the window, so the watermark is lost."""
    world.put_ids("live", 1, 2)
    job = Job("windows")
    live = job.source(uid="live", watermark=("ts", "1 second"))(
        lambda read: timed(read.schema(IDS).parquet(world.path("live")))
    )

    @job.transform(inputs=[live])
    def counts(rows: DataFrame) -> DataFrame:
        return rows.groupBy(F.window("ts", "10 seconds").start.alias("start")).count()

    job.sink("out", counts, FileSink(world.path("out")))
    with pytest.raises(UnsupportedQueryError, match=r"'counts' .*append.* watermark.*not by its start"):
        plan(spark, world, job)


@pytest.mark.parametrize(
    ("option", "is_hidden"),
    [
        ("kafka.sasl.jaas.config", True),
        ("kafka.ssl.keystore.key", True),
        ("kafka.ssl.key.password", True),
        ("url", True),
        ("kafka.bootstrap.servers", False),
        ("subscribe", False),
    ],
)
def test_options_with_secrets_are_hidden_in_plans(option: str, is_hidden: bool) -> None:
    """tests/kafka/test_secured.py checks this with Spark itself."""
    name = "spark.sql.redaction.options.regex"
    assert (re.search(session_conf({})[name], option) is not None) is is_hidden
    assert session_conf({name: "mine"})[name] == "mine"


@pytest.mark.parametrize(
    ("setting", "is_hidden"),
    [
        ("spark.hadoop.fs.s3a.bucket.lake.secret.key", True),
        ("spark.hadoop.fs.s3a.bucket.lake.access.key", True),
        ("spark.hadoop.fs.s3a.bucket.lake.session.token", True),
        ("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", True),
        ("spark.hadoop.fs.azure.sas.fixed.token", True),
        ("spark.kafka.sasl.jaas.config", True),
        ("spark.kubernetes.driverEnv.CKPT_STORAGE_OPTIONS", True),
        ("spark.kubernetes.driverEnv.CKPT_STATUS_TOKEN", True),
        ("spark.yarn.appMasterEnv.AIRFLOW_CONN_SHOP_DB", True),
        ("spark.hadoop.fs.s3a.bucket.lake.endpoint", False),
        ("spark.sql.shuffle.partitions", False),
        ("spark.app.name", False),
    ],
)
def test_settings_with_secrets_are_hidden_in_the_ui_and_the_event_log(setting: str, is_hidden: bool) -> None:
    name = "spark.redaction.regex"
    assert (re.search(session_conf({})[name], setting) is not None) is is_hidden
    assert session_conf({name: "mine"})[name] == "mine"


def test_spark_logs_at_level_warn_unless_logging_is_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At INFO, spark-submit's default, an idle query writes megabytes a minute into the task's log."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert session_conf({})["spark.log.level"] == "WARN"
    assert session_conf({"spark.log.level": "INFO"})["spark.log.level"] == "INFO"
    assert "spark.log.level" not in session_conf({"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=x"})
    (tmp_path / "log4j2.properties").touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "spark.log.level" not in session_conf({})


def remembered(rows: DataFrame) -> DataFrame:
    def keep(key: Any, frames: Any, state: Any) -> Any:
        yield from frames

    grouped = rows.select("id", "k").groupBy("k")
    return grouped.applyInPandasWithState(keep, IDS, "n long", "append", "NoTimeout")


@pytest.mark.parametrize(
    ("then", "named"),
    [
        (lambda rows: rows.dropDuplicatesWithinWatermark(["id"]), "dropDuplicatesWithinWatermark"),
        (remembered, "applyInPandasWithState"),
    ],
    ids=["by the analyser", "by the planner"],
)
def test_a_query_unfit_for_batch_mode_is_refused_when_planned(
    spark: SparkSession, world: World, then: Callable[[DataFrame], DataFrame], named: str
) -> None:
    job = Job("deduplicated")
    history = job.source(bounded=True, uid="history", watermark=("ts", "1 second"))(
        lambda read: timed(read.schema(IDS).parquet(world.path("history")))
    )
    once = job.transform(inputs=[history], uid="once")(lambda rows: then(rows))
    job.sink("out", once, FileSink(world.path("out")))
    with pytest.raises(UnsupportedQueryError, match=rf"'once'.*in batch mode.*{named}"):
        plan(spark, world, job)
    assert vertices(plan(spark, world, job, mode="streaming"))


# ---- event time after a query that unites or joins several sources


def united(world: World, then: Callable[[DataFrame], DataFrame], *, chain: bool, output_mode: Any = "append") -> Job:
    """Return a job that unites two sources with event time.

    The next transform is a separate query unless ``chain``.
    """
    job = Job("united")
    marks: Any = {"watermark": ("ts", "1 second"), "max_files_per_trigger": 1}

    def reads(folder: str) -> Callable[[Any], DataFrame]:
        return lambda read: timed(read.schema(IDS).parquet(world.path(folder)))

    history = job.source(bounded=True, uid="history", **marks)(reads("history"))
    inputs = [history, job.source(uid="live", **marks)(reads("live"))]
    both = job.transform(inputs=inputs, uid="both", chain=chain)(lambda rows: rows)
    behind = job.transform(inputs=[both], uid="behind", output_mode=output_mode)(then)
    job.sink("out", behind, FileSink(world.path("out")))
    return job


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n")).select("window.start", "n")


def test_event_time_after_a_query_of_several_sources_is_refused(spark: SparkSession, world: World) -> None:
    """A new event time would follow the fastest source, and rows of the others would be late."""
    with pytest.raises(UnsupportedQueryError, match=r"'behind'.*'both' unites or joins several sources"):
        plan(spark, world, united(world, counted, chain=False))
    assert vertices(plan(spark, world, united(world, counted, chain=True)))
    job_plan = plan(spark, world, united(world, counted, chain=False, output_mode="update"))
    assert [job_plan.definition.vertices[uid].watermark for uid in ("both", "behind")] == [None, None]


def test_a_watermark_after_a_query_of_several_sources_is_refused(spark: SparkSession, world: World) -> None:
    def again(rows: DataFrame) -> DataFrame:
        return counted(rows.withWatermark("ts", "1 second"))

    with pytest.raises(UnsupportedQueryError, match=r"'behind'.*'both'"):
        plan(spark, world, united(world, again, chain=False))


@pytest.mark.slow
def test_rows_of_the_slower_source_are_not_late_in_the_next_query(world: World) -> None:
    """The job removes duplicates by event time.

    With a watermark of the edge, history would be late compared to live.
    """
    expected = world.put_ids("history", 6, 10) | world.put_ids("live", 2, 10, 500)
    job = united(world, lambda rows: rows.dropDuplicates(["id", "ts"]).select("id", "k"), chain=False)
    run = world.run(job, world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_a_local_root_selects_the_checkpoint_file_manager() -> None:
    key = "spark.sql.streaming.checkpointFileManagerClass"
    assert session_conf({}, "file:///var/ckpt")[key].endswith(".FileSystemBasedCheckpointFileManager")
    assert session_conf({}, "/var/ckpt")[key].endswith(".FileSystemBasedCheckpointFileManager")
    for elsewhere in (None, "s3://lake/ckpt", "hdfs://name/ckpt"):
        assert key not in session_conf({}, elsewhere)
    assert session_conf({key: "of.the.User"}, "file:///var/ckpt")[key] == "of.the.User"


def test_queries_of_a_local_root_use_the_selected_file_manager(spark: SparkSession, world: World) -> None:
    """A run passes its root to the session, and Spark knows the class name.

    Spark would ignore an unknown name silently.
    """
    spark.conf.unset("spark.sql.streaming.checkpointFileManagerClass")
    world.put_ids("history", 1, 10)
    assert world.run(bounded(world)).status == "FINISHED"
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    manager = checkpointing.CheckpointFileManager.create(jvm.org.apache.hadoop.fs.Path(world.path("spark")), conf)
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"
