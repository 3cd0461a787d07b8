"""Arguments that a worker's application gets from the process that starts it."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.spark.main import _worker
from airflow_provider_ckpt.spark.worker_run import WorkerRun


def test_w14_a_supervised_worker_knows_its_try() -> None:
    arguments = Namespace(worker=["history/0"], deployment=7, try_of="shop/r1/orders.subtask/0", number=2)
    arguments.standby, arguments.begun = False, False
    work = _worker(Timing(0.1, silence=20.0), arguments)
    assert isinstance(work, WorkerRun)
    assert work.supervised == SupervisedTry("shop/r1/orders.subtask/0", 2)
    assert (work.requested, work.deployment, work.timing.silence) == (("history/0",), 7, 20.0)
    assert (work.standby, work.only_begun) == (False, False)
    arguments.try_of = ""
    by_hand = _worker(Timing(0.1), arguments)
    assert isinstance(by_hand, WorkerRun)
    assert by_hand.supervised is None


def test_a_standby_worker_may_be_limited_to_begun_subtasks() -> None:
    arguments = Namespace(worker=["history/0"], deployment=7, try_of="", number=0, standby=True, begun=True)
    work = _worker(Timing(0.1), arguments)
    assert isinstance(work, WorkerRun)
    assert (work.standby, work.only_begun) == (True, True)
