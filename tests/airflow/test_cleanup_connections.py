"""Clean-up of a job whose sinks use connections. The sinks find them, and no output shows their secrets."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseHook, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from airflow_provider_ckpt.connections import environment
from airflow_provider_ckpt.connections.environment import read_connection
from airflow_provider_ckpt.connections.errors import ConnectionMissingError
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.driver_connections import connections_here
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.job.loading.loading import load_job
from airflow_provider_ckpt.operators.job_cleanup import CheckpointedJobCleanupOperator
from tests.airflow.support import StateStore, context
from tests.client.ended_job import EndedJob

pytestmark = pytest.mark.airflow
SECRET = "s3cr3t/@:PW"
JOB = """
from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.connections.environment import read_connection

job = Job("orders")
FOLDER = job.param("folder")


class Shop(FileSink):
    def bind(self, context):
        connection = read_connection("shop_db")
        bound = super().bind(context)
        if connection.host == "down":
            def fail(*_):
                raise RuntimeError(f"the server says no to {connection.password}")
            bound.collect_garbage = fail
        return bound


@job.source(uid="v")
def live(read):
    raise AssertionError("nothing calls the job's functions")


job.sink("lake", live, Shop(FOLDER))
"""


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> Connection:
    """Define a connection in a fake secrets backend, outside this process's environment."""
    shop = Connection(conn_id="shop_db", conn_type="postgres", host="h", login="me", password=SECRET, schema="shop")
    before = BaseHook.get_connection

    def get_connection(conn_id: str) -> Any:
        if conn_id == "none":
            raise AirflowNotFoundException(f"The conn_id `{conn_id}` isn't defined")
        return shop if conn_id == "shop_db" else before(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", staticmethod(get_connection))
    monkeypatch.setattr(environment, "_IN_MEMORY", {})
    return shop


@pytest.fixture
def past(tmp_path: Path) -> EndedJob:
    """Run a job with a sink that the journal does not record completely."""
    (tmp_path / "orders.py").write_text(JOB)
    return EndedJob.run(tmp_path)


def operator(past: EndedJob, **given: Any) -> CheckpointedJobCleanupOperator:
    given = {"job": f"{past.folder}/orders.py:job", "job_params": {"folder": str(past.lake)}, **given}
    return CheckpointedJobCleanupOperator(
        task_id="clean", job_id="orders", root=str(past.root), ckpt_conn_id=None, **given
    )


def clean(past: EndedJob, **given: Any) -> dict[str, Any]:
    return operator(past, **given).execute(context(StateStore()))


def test_sinks_have_the_connections_only_while_their_job_is_deleted(
    past: EndedJob, capfd: pytest.CaptureFixture[str]
) -> None:
    task = operator(past, conn_ids=["shop_db"])
    result = task.execute(context(StateStore()))
    assert (result["status"], result["staged"], result["left"]) == ("DELETED", {"lake": 1}, [])
    assert past.staged() == []
    with pytest.raises(ConnectionMissingError):
        read_connection("shop_db")
    logged = capfd.readouterr()
    for shown in (result, logged.out, logged.err, {name: getattr(task, name) for name in task.template_fields}):
        assert "s3cr3t" not in str(shown)


def test_a_job_is_kept_if_its_sinks_lack_a_connection(past: EndedJob) -> None:
    files = past.files()
    with pytest.raises(AirflowFailException, match=r"conn_ids=\['shop_db'\]"):
        clean(past)
    assert (past.files(), len(past.staged())) == (files, 1)


def test_a_missing_connection_fails_the_clean_up_permanently(past: EndedJob) -> None:
    with pytest.raises(AirflowFailException, match="conn_ids names the Airflow connection 'none'"):
        clean(past, conn_ids=["shop_db", "none"])
    assert len(past.staged()) == 1


def test_a_sinks_error_does_not_show_its_connection(past: EndedJob, shop: Connection) -> None:
    shop.host = "down"
    with pytest.raises(AirflowException, match=r"sink lake .*the server says no to") as raised:
        clean(past, conn_ids=["shop_db"])
    assert not isinstance(raised.value, AirflowFailException)
    assert "s3cr3t" not in "".join(traceback.format_exception(raised.value))


class SeveralError(TransientError):
    template = "{said}: {more}"


@pytest.mark.parametrize("hidden", [[SECRET], (SECRET,), {"why": [SECRET]}, RuntimeError(SECRET)], ids=type)
def test_an_error_with_several_values_does_not_show_a_secret(hidden: object) -> None:
    with pytest.raises(SeveralError, match="no") as raised, connections_here(["shop_db"]):
        raise SeveralError(said="no", more=hidden)
    assert "s3cr3t" not in "".join(traceback.format_exception(raised.value))


def test_an_error_with_its_own_message_does_not_show_a_secret() -> None:
    with pytest.raises(SeveralError, match="the lake lost ") as raised, connections_here(["shop_db"]):
        raise SeveralError("the lake lost {lost}", lost=SECRET)
    assert "s3cr3t" not in "".join(traceback.format_exception(raised.value))


def test_the_hook_passes_connections_to_the_sinks(past: EndedJob) -> None:
    job = load_job(f"{past.folder}/orders.py:job", {"folder": str(past.lake)})
    hook = CheckpointHook(None, root=str(past.root))
    assert hook.delete("orders", job, conn_ids=["shop_db"]).staged == {"lake": 1}


@pytest.mark.parametrize("given", [{"conn_ids": ["shop_db"]}, {"job_params": {"folder": "/lake"}}])
def test_arguments_for_sinks_need_the_job(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidTaskArgumentError, match="give job, too"):
        CheckpointedJobCleanupOperator(task_id="clean", job_id="orders", **given)


def test_conn_ids_must_be_a_list(past: EndedJob) -> None:
    with pytest.raises(InvalidTaskArgumentError, match=r"conn_ids=\['shop_db'\]"):
        operator(past, conn_ids="shop_db")


def test_the_jobs_file_is_searched_next_to_the_dag(past: EndedJob) -> None:
    with DAG("shop") as dag:
        task = operator(past, job="orders.py:job", conn_ids=["shop_db"])
    dag.fileloc = str(past.folder / "dag.py")
    assert task.execute(context(StateStore()))["staged"] == {"lake": 1}


def test_a_missing_job_file_fails_the_clean_up_permanently(past: EndedJob) -> None:
    with pytest.raises(AirflowFailException, match="no such file"):
        clean(past, job="other.py:job")
