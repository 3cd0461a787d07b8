"""Definition of a job, and mistakes that are refused at once."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job import errors
from airflow_provider_ckpt.job.autoscaler import Autoscaler
from airflow_provider_ckpt.job.checks import _SINK_METHODS
from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.job.errors import BadControllerError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.operators import Operator, SourceOptions, Watermark
from airflow_provider_ckpt.sinks.sink import Sink
from airflow_provider_ckpt.storage.location import Location
from tests.job.jobs import Nowhere, Sketch, backfill, pass_on, read

HERE = Path(__file__).name


def here(offset: int) -> str:
    """Return "file:line" of the caller, moved by ``offset`` lines."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"{frame.f_back.f_code.co_filename}:{frame.f_back.f_lineno + offset}"


def test_a_decorated_function_can_still_be_called() -> None:
    job = Job("orders")

    @job.source
    def live(reader: str) -> str:
        return reader + "!"

    @job.transform(inputs=[live])
    def shouted(rows: str, *, times: int = 1) -> str:
        return rows.upper() * times

    assert live("a") == "a!"
    assert shouted(rows="a", times=2) == "AA"


def test_a_sink_handle_cannot_be_called() -> None:
    with pytest.raises(TypeError, match=r"'lake' .* is a sink"):
        backfill().operators["lake"]()


def test_source_works_with_and_without_parentheses() -> None:
    job = Job()
    bare = job.source(read)
    called = job.source(uid="b")(read)
    assert (bare.uid, called.uid) == ("read", "b")
    assert [operator.uid for operator in job.sources] == ["read", "b"]


def test_operators_keep_their_order_and_know_their_location() -> None:
    job = Job("orders")

    @job.source(bounded=True)
    def history(reader: Any) -> Any:
        return reader

    source_at = here(-4)
    daily = job.transform(inputs=history)(pass_on)
    sink = job.sink("lake", daily, Nowhere())
    sink_at = here(-1)
    assert list(job.operators) == ["history", "pass_on", "lake"]
    assert history.location == source_at
    assert sink.location == sink_at
    assert daily.location.startswith(str(Path(__file__).with_name("jobs.py")))


def test_the_operators_of_a_job_cannot_be_changed_from_outside() -> None:
    operators: Any = backfill().operators
    with pytest.raises(TypeError):
        operators["history"] = None


def test_inputs_are_united_into_the_functions_only_parameter() -> None:
    sketch = Sketch()
    operator = sketch.transform("both", sketch.source("a"), sketch.source("b"))
    assert operator.inputs == {"rows": ("a", "b")}
    assert operator.input_uids == ("a", "b")


def test_named_inputs_go_to_the_parameters_of_their_names() -> None:
    sketch = Sketch()
    a, b, c = (sketch.source(uid) for uid in "abc")

    @sketch.job.transform(inputs={"orders": [a, b], "customers": c})
    def joined(orders: Any, customers: Any) -> Any:
        return (orders, customers)

    assert joined.inputs == {"orders": ("a", "b"), "customers": ("c",)}
    assert joined(orders=1, customers=2) == (1, 2)


def test_a_parameter_with_a_default_needs_no_input() -> None:
    sketch = Sketch()

    @sketch.job.transform(inputs=[sketch.source("a")])
    def clipped(rows: Any, limit: int = 3) -> Any:
        return rows[:limit]

    assert clipped.inputs == {"rows": ("a",)}


def test_an_uid_may_name_an_operator_that_is_defined_later() -> None:
    sketch = Sketch()
    sketch.transform("second", "first")
    sketch.sink("out", "second")
    sketch.source("first")
    sketch.job.validate()


def test_options_are_parsed_where_they_are_given() -> None:
    job = Job()
    a = job.source(uid="a", max_bytes_per_trigger="64m", watermark=("ts", "1 hour"))(read)
    b = job.source(uid="b", max_files_per_trigger=10, watermark=("ts", timedelta(minutes=1)))(read)
    assert a.options == SourceOptions(max_bytes_per_trigger=67108864)
    assert a.options.to_spark() == {"maxBytesPerTrigger": "67108864"}
    assert b.options.to_spark() == {"maxFilesPerTrigger": "10"}
    assert a.watermark == Watermark("ts", "1 hour")
    assert b.watermark == Watermark("ts", "60000 milliseconds")


def test_the_repr_of_operators_and_jobs_hides_the_sink_object() -> None:
    job = backfill()
    assert "hunter2" not in repr(job) + repr(job.operators["lake"])


def test_handles_can_be_copied_and_pickled() -> None:
    lake = backfill().operators["lake"]
    assert pickle.loads(pickle.dumps(lake)).inputs == copy.deepcopy(lake).inputs == {"frame": ("daily_revenue",)}


def test_the_runtime_mode_follows_the_sources() -> None:
    mixed, bounded = backfill(), Sketch()
    bounded.source("a", bounded=True)
    assert mixed.runtime_mode() == "streaming"
    assert bounded.job.runtime_mode() == "batch"
    assert bounded.job.runtime_mode("streaming") == "streaming"
    with pytest.raises(errors.InvalidJobError, match="job 'orders' has others: live"):
        mixed.runtime_mode("batch")
    with pytest.raises(errors.BadOptionError, match="mode='batsch'"):
        mixed.runtime_mode("batsch")  # type: ignore[arg-type]


# ---- refusals. Each entry: what is wrong, the error, words its message must have.

Mistake = Callable[[Sketch], object]


def _foreign(sketch: Sketch) -> object:
    return sketch.transform("t", Sketch().source("a"))


def _zero(sketch: Sketch) -> object:
    return sketch.job.transform(inputs=["a"], uid="t")(lambda: None)


def _pair(sketch: Sketch) -> object:
    return sketch.job.transform(inputs=["a"], uid="t")(lambda left, right: None)


def _named_misfit(sketch: Sketch) -> object:
    return sketch.job.transform(inputs={"orders": "a", "x": "b"}, uid="t")(lambda orders, customers: None)


def _positional_only(sketch: Sketch) -> object:
    def function(rows: Any, /) -> Any:
        return rows

    return sketch.job.transform(inputs=["a"])(function)


async def _async(reader: Any) -> Any:
    return reader


def _source_option(**options: Any) -> Mistake:
    return lambda sketch: sketch.job.source(uid="s", **options)(read)


def _transform(inputs: Any, **options: Any) -> Mistake:
    return lambda sketch: sketch.job.transform(inputs=inputs, uid="t", **options)(pass_on)


def _only(*methods: str) -> SimpleNamespace:
    """Return an object that has some of a sink's methods."""
    return SimpleNamespace(**{name: frozenset() if name == "changeable" else pass_on for name in methods})


MISTAKES: dict[str, tuple[Mistake, type[InvalidInputError], str]] = {
    "empty uid": (lambda s: s.source(""), errors.InvalidJobError, "1 to 100 letters"),
    "uid with a dash": (lambda s: s.source("a-b"), errors.InvalidJobError, "'a-b'"),
    "uid with a line end": (lambda s: s.source("a\n"), errors.InvalidJobError, "'a\\\\n'"),
    "uid not ASCII": (lambda s: s.source("größe"), errors.InvalidJobError, "größe"),
    "uid too long": (lambda s: s.source("a" * 101), errors.InvalidJobError, "at all|1 to 100"),
    "uid not a text": (lambda s: s.source(7), errors.InvalidJobError, "uid 7"),  # type: ignore[arg-type]
    "lambda without uid": (lambda s: s.job.source(lambda r: r), errors.InvalidJobError, "uid="),
    "same uid": (lambda s: s.source("a"), errors.InvalidJobError, "taken by the source 'a'"),
    "uid differs in case": (lambda s: s.source("A"), errors.InvalidJobError, "more than case"),
    "uid of a sink": (lambda s: s.source("out"), errors.InvalidJobError, "taken by the sink 'out'"),
    "sink with an operator's uid": (lambda s: s.sink("a", "a"), errors.InvalidJobError, "'a'"),
    "live and empty": (
        _source_option(allow_empty=True),
        errors.BadOperatorOptionError,
        "left out: a source that is not",
    ),
    "splits and empty": (
        _source_option(bounded=True, splits=["a"], allow_empty=True),
        errors.BadOperatorOptionError,
        "a list without splits is always refused",
    ),
    "handle of another job": (_foreign, errors.InvalidJobError, "another Job"),
    "sink as input": (lambda s: s.transform("t", s.job.sinks[0]), errors.InvalidJobError, "input, 'a'"),
    "sink's uid as input": (lambda s: s.transform("t", "out"), errors.InvalidJobError, "is a sink"),
    "sink of a sink": (lambda s: s.sink("o2", s.job.sinks[0]), errors.InvalidJobError, "is a sink"),
    "input twice": (
        lambda s: s.transform("t", "a", "a"),
        errors.InvalidJobError,
        "'a' as an input twice",
    ),
    "input in two parameters": (_transform({"x": "a", "y": ["a"]}), errors.InvalidJobError, "twice"),
    "no inputs": (_transform([]), errors.InvalidJobError, "has no input"),
    "inputs left out": (_transform(None), errors.InvalidJobError, "inputs="),
    "empty dict": (_transform({}), errors.InvalidJobError, "has no input"),
    "empty parameter": (_transform({"rows": []}), errors.InvalidJobError, "has no input"),
    "transform without parentheses": (
        lambda s: s.job.transform(pass_on),  # type: ignore[arg-type]
        errors.InvalidJobError,
        "pass_on",
    ),
    "sink without input": (lambda s: s.job.sink("o", None, Nowhere()), errors.InvalidJobError, "job.sink"),  # type: ignore[arg-type]
    "sink with a list": (lambda s: s.job.sink("o", ["a"], Nowhere()), errors.InvalidJobError, "type list"),  # type: ignore[arg-type]
    "function as input": (_transform([pass_on]), errors.InvalidJobError, "type function"),
    "set of inputs": (_transform({"a"}), errors.InvalidJobError, "type set"),
    "set of united inputs": (_transform({"rows": frozenset("a")}), errors.InvalidJobError, "type frozenset"),
    "bytes as input": (_transform(b"a"), errors.InvalidJobError, "type bytes"),
    "number as input": (_transform(3), errors.InvalidJobError, "type int"),
    "dict in a dict": (_transform({"rows": {"a": "a"}}), errors.InvalidJobError, "type dict"),
    "sink is no sink": (lambda s: s.job.sink("o", "a", "s3://x"), errors.InvalidJobError, "type str"),
    "sink without folders for Spark": (
        lambda s: s.job.sink(
            "o", "a", _only("validate", "bind", "definition", "check_input", "folder_conflicts", "changeable")
        ),
        errors.InvalidJobError,
        r"type SimpleNamespace \(without not_released_with, spark_folders\)",
    ),
    "sink by two methods only": (
        lambda s: s.job.sink("o", "a", _only("validate", "bind")),
        errors.InvalidJobError,
        r"\(without definition, check_input, folder_conflicts, not_released_with, spark_folders, changeable\)",
    ),
    "sink is a class": (lambda s: s.job.sink("o", "a", Nowhere), errors.InvalidJobError, "class Nowhere, not"),
    "source without parameter": (
        lambda s: s.job.source(uid="s")(lambda: None),
        errors.InvalidJobError,
        "one parameter, the reader",
    ),
    "source with two": (lambda s: s.job.source(uid="s")(lambda x, y: None), errors.InvalidJobError, "'y'"),
    "async source": (lambda s: s.job.source(_async), errors.InvalidJobError, "not an async"),
    "transform without parameter": (_zero, errors.InvalidJobError, "found 0"),
    "transform with two": (_pair, errors.InvalidJobError, "found 2"),
    "parameter without input": (
        _named_misfit,
        errors.InvalidJobError,
        r"t\(orders, customers\)|'customers'",
    ),
    "positional-only parameter": (_positional_only, errors.InvalidJobError, "passed by name"),
    "decorated twice": (
        lambda s: s.job.source(uid="s")(s.job.sources[0]),
        errors.BadOperatorOptionError,
        "'a'",
    ),
    "decorated number": (lambda s: s.job.source(uid="s")(3), errors.BadOperatorOptionError, "plain function"),  # type: ignore[arg-type]
    "bad output mode": (_transform("a", output_mode="apend"), errors.BadOperatorOptionError, "'append' or"),
    "output mode unhashable": (
        _transform("a", output_mode=["append"]),
        errors.BadOperatorOptionError,
        "mode",
    ),
    "bad release": (
        lambda s: s.job.sink("o", "a", Nowhere(), release="never"),  # type: ignore[arg-type]
        errors.BadOperatorOptionError,
        "'every_checkpoint' or 'final'",
    ),
    "unknown source option": (_source_option(bonded=True), errors.BadOptionError, "mean 'bounded'"),
    "unknown transform option": (
        _transform("a", outputmode="append"),
        errors.BadOptionError,
        "output_mode",
    ),
    "bounded as a text": (_source_option(bounded="yes"), errors.BadOperatorOptionError, "True or False"),
    "chain as a number": (_transform("a", chain=1), errors.BadOperatorOptionError, "True or False"),
    "bad size": (_source_option(max_bytes_per_trigger="64 q"), errors.BadOptionError, "max_bytes_per_trigger"),
    "size 0": (_source_option(max_bytes_per_trigger=0), errors.BadOperatorOptionError, "above 0"),
    "more files than Spark counts": (
        _source_option(max_files_per_trigger=2**31),
        errors.BadOperatorOptionError,
        "2147483647 at the most",
    ),
    "files as a text": (_source_option(max_files_per_trigger="9"), errors.BadOperatorOptionError, "above 0"),
    "both limits": (
        _source_option(max_files_per_trigger=1, max_bytes_per_trigger=1),
        errors.BadOperatorOptionError,
        "either",
    ),
    "watermark without delay": (_source_option(watermark="ts"), errors.BadOperatorOptionError, '"1 hour"'),
    "watermark without column": (
        _source_option(watermark=("", "1 h")),
        errors.BadOperatorOptionError,
        "column",
    ),
    "negative delay": (_source_option(watermark=("ts", -1)), errors.BadOptionError, "watermark"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_at_once_and_leaves_the_job_unchanged(mistake: str) -> None:
    sketch = Sketch()
    sketch.source("a")
    sketch.sink("out", "a")
    make, expected, words = MISTAKES[mistake]
    with pytest.raises(expected, match=words) as caught:
        make(sketch)
    assert isinstance(caught.value, InvalidInputError)
    assert list(sketch.job.operators) == ["a", "out"]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_callable_without_a_name_can_be_an_operator_with_a_uid() -> None:
    job = Job()
    operator = job.source(uid="live")(functools.partial(lambda reader, table: (reader, table), table="t"))
    assert operator("r") == ("r", "t")
    assert HERE in operator.location


@pytest.mark.parametrize("name", ["", "  ", 3])
def test_a_job_name_must_be_a_text(name: Any) -> None:
    with pytest.raises(errors.InvalidJobError, match="has no name"):
        Job(name)


def test_the_message_of_a_mistake_names_its_line() -> None:
    sketch = Sketch()
    with pytest.raises(errors.BadOptionError, match="no option 'bonded'"):
        sketch.job.source(bonded=True)  # type: ignore[call-overload]
    sketch.source("a")
    with pytest.raises(errors.InvalidJobError, match="is no sink") as caught:
        sketch.job.sink("o", "a", 3)
    assert here(-1) in str(caught.value)


def test_a_handle_equals_only_itself() -> None:
    first, second = Sketch().source("a"), Sketch().source("a")
    assert first != second
    assert isinstance(first, Operator)
    assert len({first, second}) == 2


@pytest.mark.parametrize("folders", [None, "/lake", ["/lake"], [("/lake", {})], [Location("/lake"), None]])
def test_a_sink_with_folders_of_the_wrong_type_is_refused(folders: Any) -> None:
    """The driver would otherwise fail on it when the task runs."""

    class Odd(Nowhere):
        def spark_folders(self, storage_options: Any) -> Any:
            return folders

    job = Job("j")
    job.source(uid="a")(read)
    job.sink("out", "a", Odd())
    with pytest.raises(errors.InvalidJobError, match=r"'out' .*spark_folders\(\) gives no list of Locations"):
        job.validate()


def test_every_method_of_a_sink_is_checked_when_it_is_given() -> None:
    asked = {name for name, value in vars(Sink).items() if callable(value) and not name.startswith("_")}
    assert set(_SINK_METHODS) == asked


class _Policy(Controller):
    """Controller that never asks for a change."""


def test_a_job_with_other_functions_keeps_its_controllers() -> None:
    policy = _Policy()
    job = Job("watched", controllers=[policy])
    assert job.with_operators(job.operators).controllers == (policy,)
    assert job.__getstate__()["controllers"] == (), "controllers stay in the driver"


def test_an_autoscaler_for_an_unknown_operator_is_refused() -> None:
    """The policy would never get metrics, and would never change anything."""
    for uid, hint in (("cleen", "Did you mean 'clean'"), ("out", "It has: live, clean")):
        job = Job("watched", controllers=[Autoscaler(uid, max_files_per_batch=(1, 4))])
        live = job.source(uid="live")(lambda read: read.parquet("/in"))
        clean = job.transform(inputs=[live], uid="clean")(lambda rows: rows)
        job.sink("out", clean, Nowhere())
        with pytest.raises(BadControllerError, match=rf"Autoscaler\({uid}\): the job has no operator '{uid}'.*{hint}"):
            job.validate()


@pytest.mark.parametrize(
    ("controllers", "why"),
    [
        (_Policy(), "controllers are a list"),
        ([_Policy], "it is no Controller"),
        (["Autoscaler"], "it is no Controller"),
        ([type("Often", (_Policy,), {"__init__": lambda self: None, "every": 0})()], "every is a number of seconds"),
        ([type("Text", (_Policy,), {"__init__": lambda self: None, "cool_down": "1m"})()], "cool_down is a number"),
        (
            [type("Never", (_Policy,), {"__init__": lambda self: None, "every": math.nan})()],
            "every is a number of seconds",
        ),
    ],
)
def test_an_invalid_controller_is_refused(controllers: Any, why: str) -> None:
    with pytest.raises(BadControllerError, match=why):
        Job("watched", controllers=controllers)


def test_a_source_has_a_maximum_lead_and_an_idle_timeout() -> None:
    job = Job("orders")
    plain = job.source(uid="plain")(read)
    live = job.source(uid="live", max_ahead="2h", idle_timeout=timedelta(minutes=5))(read)
    free = job.source(uid="free", max_ahead=None)(read)
    assert [(source.max_ahead, source.idle_timeout) for source in (plain, live, free)] == [
        (86_400.0, None),
        (7_200.0, 300.0),
        (None, None),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_ahead": "soon"}, "max_ahead"),
        ({"idle_timeout": "a while"}, "idle_timeout"),
        ({"idle_timeout": 0}, "longer than 0"),
        ({"idle_timeout": "5m", "bounded": True}, "holds event time until it has ended"),
        ({"idle_timeout": "5m", "bounded": True, "splits": [1]}, "idle_timeout"),
        ({"max_ahead": "5m", "bounded": True, "splits": [1]}, "moves a watermark"),
    ],
)
def test_an_idle_timeout_and_a_bound_of_event_time_are_checked(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        Job("orders").source(uid="a", **given)(read)
