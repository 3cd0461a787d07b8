"""The number of executors a driver requests.

The cluster is a fake; tests/cluster/test_executors.py uses a real one.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.spark.task import executors as module
from airflow_provider_ckpt.spark.task.executors import Executors
from tests.support.waiting import wait_until


class Cluster:
    """A fake of Spark's session, its context and the JVM.

    ``running``: the executors; ``asked``: the requests.
    """

    def __init__(self, master: str = "spark://there:7077", running: int = 2, **conf: str) -> None:
        self.running, self.asked = [str(number) for number in range(running)], list[int]()
        self.wanted = running
        self.calls = threading.Event()
        self.calls.set()
        self.conf = {name.replace("_", "."): value for name, value in conf.items()}
        empty = SimpleNamespace(empty=dict)
        scala = SimpleNamespace(collection=SimpleNamespace(immutable=SimpleNamespace(**{"Map$": _Module(empty)})))
        python = SimpleNamespace(PythonUtils=SimpleNamespace(toSeq=list))
        org = SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(api=SimpleNamespace(python=python))))
        jvm = SimpleNamespace(scala=scala, org=org)
        getter = SimpleNamespace(get=lambda name, default: self.conf.get(name, default))
        java = SimpleNamespace(sc=lambda: self)
        self.sparkContext = SimpleNamespace(master=master, getConf=lambda: getter, _jsc=java, _jvm=jvm)

    def getExecutorIds(self) -> Any:
        return SimpleNamespace(mkString=lambda by: by.join(reversed(self.running)))

    def killExecutors(self, ids: list[str]) -> None:
        """End executors as Spark does, which then wants fewer of them."""
        self.wanted -= len(set(self.running) & set(ids))
        self.running = [executor for executor in self.running if executor not in ids]

    def requestTotalExecutors(self, number: int, local: int, hosts: dict[str, int]) -> None:
        assert (local, hosts) == (0, {})
        assert self.calls.wait(10), "the master does not answer"
        self.asked.append(number)
        self.wanted = number


class _Module:
    def __init__(self, module: object) -> None:
        self.module = module

    def __getattr__(self, name: str) -> object:
        assert name == "MODULE$"
        return self.module


def executors_of(cluster: Cluster) -> Executors:
    return Executors(cluster)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK", 0.001)


def test_more_executors_are_requested_once_and_none_ends() -> None:
    cluster = Cluster()
    executors = executors_of(cluster)
    for _ in range(3):
        executors.request_number("a", 4)
    assert (cluster.asked, cluster.running) == ([4], ["0", "1"])


def test_requesting_fewer_executors_keeps_the_oldest() -> None:
    cluster = Cluster(running=12)
    executors_of(cluster).request_number("a", 2)
    assert (cluster.asked, cluster.running) == ([2], ["0", "1"])


def test_the_largest_number_of_a_drivers_queries_holds() -> None:
    cluster = Cluster(running=4)
    executors = executors_of(cluster)
    executors.request_number("a", 4)
    executors.request_number("b", 2)
    executors.request_number("c", None)
    assert (cluster.asked, len(cluster.running)) == ([4], 4)
    executors.request_number("a", 1)
    assert (cluster.asked, len(cluster.running)) == ([4, 2], 2)


def test_without_a_number_no_executors_are_requested() -> None:
    cluster = Cluster()
    executors_of(cluster).request_number("a", None)
    assert cluster.asked == []


def test_an_executor_that_starts_after_a_reduction_is_ended() -> None:
    cluster = Cluster(running=1)
    executors_of(cluster).request_number("a", 1)
    cluster.running.append("7")
    wait_until(lambda: cluster.running == ["0"], lambda: str(cluster.running))


def test_ending_a_late_executor_does_not_lower_the_wanted_number() -> None:
    cluster = Cluster(running=2)
    executors_of(cluster).request_number("a", 2)
    cluster.running.append("7")
    wait_until(lambda: cluster.running == ["0", "1"] and cluster.wanted == 2, lambda: f"{vars(cluster)}")


def test_a_request_of_the_previous_run_ends_no_executor_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby worker runs one subtask after the other in the same Spark application."""
    monkeypatch.setattr(module, "COMING", 1.0)
    cluster = Cluster(running=2)
    before, is_over = executors_of(cluster), threading.Event()
    keep = before._keep_requesting

    def kept(number: int, tried: threading.Event) -> None:
        keep(number, tried)
        is_over.set()

    monkeypatch.setattr(before, "_keep_requesting", kept)
    before.request_number("a", 2)
    executors_of(cluster).request_number("b", 4)
    cluster.running += ["7", "8"]
    wait_until(is_over.is_set, "the end of the previous run's request")
    assert (len(cluster.running), cluster.wanted) == (4, 4)


def test_a_query_begins_without_an_answer_of_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    cluster = Cluster()
    cluster.calls.clear()
    executors = executors_of(cluster)
    began = time.monotonic()
    executors.request_number("a", 4)
    executors.request_number("b", 5)
    assert time.monotonic() - began < 5
    cluster.calls.set()
    wait_until(lambda: cluster.wanted == 5, lambda: str(cluster.asked))


def test_a_failed_request_is_repeated_and_fails_no_query(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    ask, failures = cluster.requestTotalExecutors, [OSError("no master"), OSError("no master")]

    def request(*args: Any) -> None:
        if failures:
            raise failures.pop()
        ask(*args)

    monkeypatch.setattr(cluster, "requestTotalExecutors", request)
    executors_of(cluster).request_number("a", 4)
    wait_until(lambda: cluster.asked == [4], lambda: str(cluster.asked))
    assert "the request for 4 executors failed, and will be repeated: no master" in caplog.text


def test_an_abandoned_request_is_repeated_for_the_next_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMING", 0.02)
    cluster = Cluster()
    executors = executors_of(cluster)
    with monkeypatch.context() as gone:
        gone.setattr(executors, "_request", lambda number: 1 / 0)
        executors.request_number("a", 4)
        wait_until(lambda: executors._requested is None, lambda: str(executors._requested))
    executors.request_number("a", 4)
    assert cluster.asked == [4]


def test_a_request_for_more_executors_ends_the_reduction(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    executors = executors_of(Cluster(running=1))
    monkeypatch.setattr(executors, "_end_surplus", looks.append)
    executors.request_number("a", 1)
    executors.request_number("a", 3)
    seen = len(looks)
    wait_until(lambda: len(looks) > seen + 3, lambda: str(looks))
    assert set(looks[seen:]) == {3}


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (Cluster("local[2]"), r"has no executors \(master local\[2\]\)"),
        (Cluster("local"), r"has no executors \(master local\)"),
        (Cluster("yarn", spark_dynamicAllocation_enabled="true"), "spark.dynamicAllocation.enabled"),
    ],
)
def test_a_run_continues_where_executors_cannot_be_changed(
    cluster: Cluster, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    executors = executors_of(cluster)
    with caplog.at_level(logging.WARNING):
        executors.request_number("a", 1)
    assert (cluster.asked, len(cluster.running)) == ([], 2)
    problem = executors.problem()
    assert problem is not None
    assert problem in caplog.text
    assert re.search(why, problem)


@pytest.mark.parametrize("master", ["spark://there:7077", "yarn", "k8s://https://there", "local-cluster[2,1,1024]"])
def test_masters_that_can_change_executors_have_no_problem(master: str) -> None:
    assert executors_of(Cluster(master)).problem() is None
