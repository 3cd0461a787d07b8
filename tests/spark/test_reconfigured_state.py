"""Functions whose state has the same types as the current state, but another meaning.

Spark would mistake one state for the other. Other tests assign functions that Spark refuses at the start, or that read
less than before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.job.errors import DefinitionChangedError
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.kept_state import KeptState, confused_states
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.spark.plan import job_plan, replacement_query
from airflow_provider_ckpt.spark.plan.query_state import kept_state
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from tests.spark.counting_job import UserScript
from tests.spark.harness import World
from tests.spark.jobs import IDS, write_version
from tests.support.waiting import wait_until

JOIN = "a.selectExpr('id', 'k AS ka').join(b.selectExpr('id', 'k AS kb'), 'id').select('id', 'ka', 'kb')"
SWAPPED = "b.selectExpr('id', 'k AS kb').join(a.selectExpr('id', 'k AS ka'), 'id').select('id', 'ka', 'kb')"
BY_ID, BY_K = (f"a.unionByName(b).dropDuplicates(['{key}'])" for key in ("id", "k"))
SUMS, TURNED = (
    f"a.unionByName(b).groupBy('k').agg(F.sum('id').alias('x'), F.max('id').alias('y')).selectExpr('k', '{total} AS d')"
    for total in ("x - y", "- y + x")
)
UNION = "a.unionByName(b)"
STRUCTS = "id long, k long, s struct<n: long>, t struct<n: long>"
BRANCHES, TURNED_BRANCHES = (
    f"{first}.dropDuplicates(['id']).unionByName({second}.dropDuplicates(['id']))"
    for first, second in (("a", "b"), ("b", "a"))
)


def job_of_two_feeds(world: World, gives: str, mode: str) -> Job:
    job = Job("two")

    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    def other(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("other"))

    sources = [job.source(uid=function.__name__, max_files_per_trigger=1)(function) for function in (live, other)]
    inputs = {"a": [sources[0]], "b": [sources[1]]}
    made = job.transform(inputs=inputs, uid="behind", output_mode=mode)(lambda a, b: eval(gives))  # type: ignore[arg-type]
    job.sink("out", made, FileSink(world.path("out")))
    return job


def other_version(world: World, gives: str, mode: str, option: str) -> str:
    sources = "".join(
        f"@job.source\ndef {uid}(read):\n    return read.schema({IDS!r}){option}.parquet({world.path(uid)!r})\n"
        for uid in ("live", "other")
    )
    head = f"@job.transform(inputs={{'a': [live], 'b': [other]}}, output_mode={mode!r})"
    return write_version(world, "v2", sources, f"{head}\ndef behind(a, b):\n    return {gives}")


@pytest.mark.parametrize(
    ("before", "after", "mode", "option", "why"),
    [
        pytest.param(JOIN, SWAPPED, "append", "", "Join by id = id of other with live instead of Join", id="sides"),
        pytest.param(
            BY_ID, BY_K, "append", "", "Deduplicate by k of live and other instead of Deduplicate by id", id="key"
        ),
        pytest.param(
            SUMS, TURNED, "update", "", "Aggregate by k (max(id), sum(id)) of live and other instead of", id="order"
        ),
        pytest.param(
            BRANCHES, TURNED_BRANCHES, "append", "", "id of other instead of Deduplicate by id of live", id="branches"
        ),
        pytest.param(UNION, "a", "append", "", "does not read its input 'other'", id="left out"),
        pytest.param(UNION, "a.unionByName(a)", "append", "", "does not read its input 'other'", id="left out, twice"),
        pytest.param(UNION, UNION, "append", ".option('maxFileAge', 'bogus')", "Time must be specified", id="option"),
    ],
)
def test_a_function_with_confusable_state_is_refused(
    world: World, before: str, after: str, mode: str, option: str, why: str
) -> None:
    outcomes: list[RequestOutcome] = []
    world.put_ids("live", 1, 10)
    world.put_ids("other", 1, 10)

    def work(script: UserScript) -> None:
        wait_until(lambda: world.released_count() >= 1, "rows")
        reference = other_version(world, after, mode, option)
        outcomes.append(
            script.change(Reconfiguration().assign_execution_logic("live" if option else "behind", reference))
        )
        world.put_ids("live", 1, 10, 100)
        world.put_ids("other", 1, 10, 100)
        count = world.released_count()
        wait_until(lambda: world.released_count() > count, "more rows")
        world.request("drain")

    with UserScript(world, work, end="nothing"):
        run = world.run(job_of_two_feeds(world, before, mode))
    assert run.status == "FINISHED", (run.cause, outcomes)
    assert world.state().settings == {}
    assert why in outcomes[0].detail, outcomes


RENAMED = "a.unionByName(b).withColumnRenamed('id', 'i').dropDuplicates(['i']).withColumnRenamed('i', 'id')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "mode", "why"),
    [
        pytest.param(BRANCHES, TURNED_BRANCHES, "append", "Deduplicate by id of live' became", id="branches"),
        pytest.param(
            SUMS, TURNED, "update", "'Aggregate by k \\(sum.id., max.id.\\) of live and other' became", id="order"
        ),
        pytest.param(BY_ID, RENAMED, "append", None, id="a column has another name"),
    ],
)
def test_the_next_run_refuses_confusable_state(
    world: World, before: str, after: str, mode: str, why: str | None
) -> None:
    """A user edits the job file or assigns a function.

    The run is refused before it reads a row, and the job can run as before.
    """
    world.put_ids("live", 1, 10)
    world.put_ids("other", 1, 10, 100)

    def run(job: Job) -> str:
        count = world.released_count()
        ended = world.run(job, world.ask("stop", lambda: world.released_count() > count))
        assert ended.cause is None
        return ended.status

    assert run(job_of_two_feeds(world, before, mode)) == "STOPPED"
    world.put_ids("live", 1, 20, 5)
    if why is None:
        assert run(job_of_two_feeds(world, after, mode)) == "STOPPED"
        assert world.released_ids() == sorted({*range(25), *range(100, 110)})
        return
    written = world.everything_under_root()
    with pytest.raises(DefinitionChangedError, match=why):
        world.run(job_of_two_feeds(world, after, mode))
    assert world.everything_under_root() == written
    assigned = Reconfiguration().assign_execution_logic("behind", other_version(world, after, mode, ""))
    JobClient(str(world.root), world.job_id).assign_for_next_run(assigned)
    with pytest.raises(DefinitionChangedError, match=f"{why}.*behind was given .*v2.py:job"):
        world.run(job_of_two_feeds(world, before, mode))
    assigned = Reconfiguration().assign_execution_logic("behind", None)
    JobClient(str(world.root), world.job_id).assign_for_next_run(assigned)
    assert run(job_of_two_feeds(world, before, mode)) == "STOPPED"


def test_kept_state_names_keys_columns_and_sides(spark: SparkSession, world: World) -> None:
    def stream(name: str) -> DataFrame:
        return spark.readStream.name(name).schema(IDS).parquet(world.path("live"))

    a, b = stream("a"), stream("b")
    at = F.timestamp_seconds("id")
    timed = [frame.withColumn("ts", at).withWatermark("ts", "1 second") for frame in (a, b)]
    pairs = timed[0].alias("l").join(timed[1].alias("r"), F.expr("l.id = r.id AND l.k = r.k AND l.ts >= r.ts"))
    assert kept_state(pairs) == [KeptState("Join", ("id = id", "k = k"), (("a",), ("b",)), bounds=("(ts >= ts)",))]
    counted = a.unionByName(b).groupBy(F.upper("k").alias("key")).count()
    upper, key = "upper(CAST(k AS STRING))", ("key upper(CAST(_ AS STRING))",)
    assert kept_state(counted) == [KeptState("Aggregate", (upper,), (("a", "b"),), ("count(1)",), key)]
    assert kept_state(timed[0].dropDuplicatesWithinWatermark(["k", "id"])) == [
        KeptState("DeduplicateWithinWatermark", ("k", "id"), (("a",),), bounds=("duplicates within 1 second",))
    ]
    assert kept_state(a.limit(3))[0].by == ()
    made = F.udf(lambda k: k, "long")  # Spark has turned the result of Python into a column by then
    assert len(kept_state(a.groupBy(made("k"), F.upper("id")).count())[0].by) == 2
    assert kept_state(a.join(spark.range(3).toDF("id"), "id")) == []


def test_kept_state_in_another_order_differs(spark: SparkSession, world: World) -> None:
    """Spark keeps keys and sums in the order of their first use in the query, independent of later steps."""
    a = spark.readStream.name("a").schema(IDS).parquet(world.path("live"))
    b = spark.readStream.name("b").schema("id2 long, k2 long, id long, k long").parquet(world.path("live"))
    crossed = [
        a.alias("l").join(b.alias("r"), F.expr(on)) for on in ("l.id = r.k AND l.k = r.id", "l.k = r.id AND l.id = r.k")
    ]
    total, other = F.sum("id"), F.sum("k")
    sums = [a.groupBy("k").agg(difference.alias("d")) for difference in (total - other, -other + total)]
    distinct = [a.select(*names).distinct() for names in (("id", "k"), ("k", "id"))]
    for name in ("va", "vb"):
        frame = spark.readStream.name(name).schema(STRUCTS).parquet(world.path("live"))
        frame.createOrReplaceTempView(name)
    in_where = [
        spark.sql(f"select l.id from va l, vb r where {on}")
        for on in ("l.id = r.id and l.k = r.k", "l.k = r.k and l.id = r.id")
    ]
    counts = "with p as (select k, count(*) n from va group by k), q as (select k, count(*) n from vb group by k) "
    united = [spark.sql(f"{counts} select * from {x} union all select * from {y}") for x, y in (("p", "q"), ("q", "p"))]
    fields = [spark.sql(f"select count(*) from va group by {by}") for by in ("s.n, t.n", "t.n, s.n")]
    sides = [
        spark.sql(f"select count(*) from va l join vb r on l.id = r.id group by {by}")
        for by in ("l.k, r.k", "r.k, l.k")
    ]
    for query, turned in (crossed, sums, distinct, in_where, united, fields, sides, *_made_up_by_spark(spark, a)):
        had, has = kept_state(query), kept_state(turned)
        assert not had[0].fits(has[0])
        assert confused_states(had, has) == (had[0], has[0])
    assert kept_state(sides[0])[0].by == ("va.k", "vb.k")
    both = spark.sql("select sum(l.k), sum(r.k) from va l join vb r on l.id = r.id")
    assert kept_state(both)[0].calls == ("sum(va.k)", "sum(vb.k)")
    assert kept_state(crossed[0])[0].by == ("id = k", "k = id")
    assert kept_state(sums[1])[0].calls == ("sum(k)", "sum(id)")


def _made_up_by_spark(spark: SparkSession, a: DataFrame) -> list[list[DataFrame]]:
    """Return queries with columns that Spark names by number or by field.

    The kept state describes their meaning instead.
    """
    same = F.udf(lambda x: x, "long")
    first, other = F.sum(same("id")), F.sum(same("k"))
    by_python = [a.groupBy(*keys).count() for keys in ((same("k"), same("id")), (same("id"), same("k")))]
    sums = [a.groupBy("k").agg(difference.alias("d")) for difference in (first - other, -other + first)]
    counts = [
        spark.sql(f"select k, {expression} d from va group by k")
        for expression in ("count_if(id > 5) - count_if(id <= 5)", "-count_if(id <= 5) + count_if(id > 5)")
    ]
    nulls = [
        spark.sql(f"select nullif(id + k, 3) x, nullif(id - k, 3) y, count(*) from va group by {by}")
        for by in ("1, 2", "2, 1")
    ]
    joined = [
        spark.sql(f"select count(*) from va l join vb r on l.id = r.id group by {by}")
        for by in ("l.s.n, r.s.n", "r.s.n, l.s.n")
    ]
    return [by_python, sums, counts, nulls, joined]


def test_kept_state_of_a_repeated_plan_is_equal(spark: SparkSession, world: World) -> None:
    """Spark numbers common expressions over all plans of a driver, and ``now()`` is a constant of each plan."""
    frame = spark.readStream.name("a").schema(IDS).parquet(world.path("live"))
    frame.createOrReplaceTempView("va")
    for text in (
        "select k, count_if(id * k > 5) a, count_if(id * k <= 5) b, count_if(id * k = 3) c from va group by k",
        "select nullif(id + k, 3) x, count(*) from va group by 1",
        "select timestamp_seconds(id) > now() - interval 1 day late, count(*) from va group by 1",
        "select k, sum(if(timestamp_seconds(id) > now(), 1, 0)) x, sum(if(id > unix_micros(now()), 2, 0)) y from va "
        "group by k",
    ):
        now, again = (kept_state(spark.sql(text)) for _ in range(2))
        assert now == again
        assert "_common_expr" not in str(now)
    today = "date(timestamp_seconds(id)) = current_date()"
    kept = kept_state(spark.sql(f"select k, sum(if({today}, 1, 0)) from va group by k"))
    assert not any(character.isdigit() for character in str(kept[0].calls)), "the state would differ tomorrow"


def test_an_unedited_job_resumes_with_another_plan_of_spark(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The description of a plan only serves to find edits."""
    turned = [KeptState("Aggregate", (x, y), (("live",),)) for x, y in (("id", "k"), ("k", "id"))]
    code, other = (JobCode(rest, {}, {}) for rest in ("a", "b"))

    def run(number: int, code: JobCode) -> str:
        monkeypatch.setattr(job_plan, "kept_state", lambda frame: turned[number : number + 1])
        world.put_ids("live", 1, 5, number * 100)
        world.put_ids("other", 1, 5, number * 100 + 50)
        job, count = job_of_two_feeds(world, UNION + ".groupBy('id', 'k').count()", "update"), world.released_count()
        job.code = code
        return world.run(job, world.ask("stop", lambda: world.released_count() > count)).status

    assert run(0, code) == "STOPPED"
    with pytest.raises(DefinitionChangedError, match="kept state"):
        run(1, other)
    assert run(1, code) == "STOPPED"


def test_kept_state_distinguishes_literals_without_showing_them(spark: SparkSession, world: World) -> None:
    """The kept state is written to the journal, so it must not contain the text."""
    a = spark.readStream.name("a").schema(IDS).parquet(world.path("live"))
    sums = [F.expr(f"sum(if(sha2(concat(k, '{key}'), 256) > 'it\\'s', id, 0))") for key in ("hunter2", "pepper")]
    kept = [kept_state(a.groupBy(F.concat("k", F.lit("salty"))).agg(*each)) for each in (sums, sums[::-1])]
    assert confused_states(kept[0], kept[1]) == (kept[0][0], kept[1][0])
    assert len({*kept[0][0].calls}) == 2
    assert not any(text in str(kept) for text in ("hunter2", "pepper", "salty", "it's"))


def test_a_secret_in_the_path_of_a_source_is_hidden() -> None:
    shown = replacement_query._shown(SourceReads("parquet", {}, ["s3a://KEY:SECRET@lake/in"]))
    assert "SECRET" not in shown
    assert "lake/in" in shown


def test_kept_state_ignores_spelling(spark: SparkSession, world: World) -> None:
    a = spark.readStream.name("a").schema(IDS).parquet(world.path("live"))
    b = spark.readStream.name("b").schema("id2 long, k2 long").parquet(world.path("live"))
    for query, other in (
        (a.join(b, F.expr("id = id2")), a.join(b, F.expr("id2 = id"))),
        (a.alias("x").groupBy("x.id").count(), a.alias("y").groupBy("y.id").count()),
        (a.groupBy(F.rand(), "k").count(), a.groupBy(F.rand(), "k").count()),
        (a.groupBy("k").count().select("k", "count"), a.groupBy("k").count().select("count", "k")),
        (
            a.groupBy("k").agg(F.sum("id").alias("x"), F.max("id").alias("y")),
            a.groupBy("k").agg(F.max("id").alias("y"), F.sum("id").alias("x")).select("k", "x", "y"),
        ),
        (a.join(b, F.expr("id = id2 AND k = 5")), a.join(b, F.expr("k = 5 AND id = id2"))),
    ):
        assert kept_state(query) == kept_state(other)
    assert kept_state(a.join(b, F.expr("id = id2"))) != kept_state(a.join(b, F.expr("k = id2")))


def test_kept_state_names_the_sides_of_a_join_of_sql_views(spark: SparkSession, world: World) -> None:
    for name in ("va", "vb"):
        frame = spark.readStream.name(name).schema(IDS).parquet(world.path("live"))
        frame.createOrReplaceTempView(name)
    text = (
        "with p as (select * from {}), q as (select * from {}), r as (select * from q) "
        "select p.id from p join r on p.id = r.id"
    )
    now, swapped = (kept_state(spark.sql(text.format(*names))) for names in (("va", "vb"), ("vb", "va")))
    assert now == [KeptState("Join", ("id = id",), (("va",), ("vb",)))]
    assert swapped == [KeptState("Join", ("id = id",), (("vb",), ("va",)))]


def test_kept_state_names_the_keys_of_a_users_processor(spark: SparkSession, world: World) -> None:
    class Nothing(StatefulProcessor):
        def init(self, handle: Any) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            yield from rows

        def close(self) -> None:
            pass

    a = spark.readStream.name("a").schema(IDS).parquet(world.path("live"))
    keys = [
        kept_state(a.groupBy(key).transformWithStateInPandas(Nothing(), "id long", "append", "none"))[0].by
        for key in ("id", "k")
    ]
    assert keys == [("id",), ("k",)]


def followed(world: World, history: str) -> Job:
    job = Job("followed")

    @job.source(uid=history, bounded=True)
    def past(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path(history))

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs={"a": [past], "b": [live]})
    def once(a: DataFrame, b: DataFrame) -> DataFrame:
        return a.unionByName(b).dropDuplicates(["id"])

    job.sink("out", once, FileSink(world.path("out")))
    return job


@pytest.mark.slow
def test_another_source_replaces_an_ended_one(world: World) -> None:
    """The new source is identified by the columns of the previous one."""
    for number, (start, past), expected in ((1, (0, 10), 15), (2, (10, 15), 30)):
        world.put_ids(f"history{number}", 1, past, start)
        world.put_ids("live", 1, 5, start + past)
        stop = world.ask("stop", lambda expected=expected: world.released_count() >= expected)  # type: ignore[misc]
        run = world.run(followed(world, f"history{number}"), stop, allow_non_restored_state=True)
        assert (run.status, run.cause) == ("STOPPED", None)
    assert world.released_ids() == [*range(30)]
