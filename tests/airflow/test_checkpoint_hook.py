from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.client.errors import NoSuchJobError
from airflow_provider_ckpt.errors import RequestRefusedError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.connection_settings import location_of
from airflow_provider_ckpt.hooks.errors import InvalidCkptConnectionError, NoCheckpointRootError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.storage.errors import InvalidJobIdError
from airflow_provider_ckpt.storage.local_storage import LocalStorage
from airflow_provider_ckpt.storage.storage import Storage
from tests.airflow.driver_journal import complete, end, start_driver

Journals = Callable[[str], Journal]


@pytest.fixture
def hook(root: Storage, monkeypatch: pytest.MonkeyPatch) -> CheckpointHook:
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps({"conn_type": "ckpt", "host": root.uri}))
    return CheckpointHook()


def test_jobs_and_checkpoints_are_read_from_the_journals(hook: CheckpointHook, journal: Journals) -> None:
    complete(start_driver(journal("orders")), 1, 2)
    start_driver(journal("visits"))
    assert [state.job_id for state in hook.jobs()] == ["orders", "visits"]
    assert hook.job("orders").last_completed == 2
    assert [(checkpoint.checkpoint, checkpoint.status) for checkpoint in hook.checkpoints("orders")] == [
        (1, "released"),
        (2, "released"),
    ]


def test_the_error_for_an_unknown_job_names_its_root(hook: CheckpointHook, root: Storage) -> None:
    with pytest.raises(NoSuchJobError, match="orders") as caught:
        hook.job("orders")
    assert root.uri in str(caught.value)
    assert root.list("orders") == [], "asking writes nothing"


@pytest.mark.parametrize("kind", ["stop", "drain"])
def test_a_request_to_a_running_job_is_written_for_its_epoch(
    hook: CheckpointHook, root: Storage, journal: Journals, kind: str
) -> None:
    start_driver(start_driver(journal("orders")))
    name = getattr(hook, kind)("orders")
    (request,) = pending_requests(root, "orders", 2, set())
    assert (request.name, request.kind) == (name, kind)


def test_a_request_to_a_stopped_job_is_refused(hook: CheckpointHook, journal: Journals) -> None:
    end(start_driver(journal("orders")), "STOPPED")
    with pytest.raises(RequestRefusedError, match="STOPPED"):
        hook.stop("orders")


def test_a_root_alone_needs_no_connection(root: Storage) -> None:
    assert CheckpointHook(root=root.uri).jobs() == []


def test_a_hook_without_connection_and_root_raises_an_error() -> None:
    with pytest.raises(NoCheckpointRootError, match="ckpt_default"):
        CheckpointHook().storage()


def test_the_test_button_probes_the_root_and_counts_its_jobs(
    hook: CheckpointHook, journal: Journals, root: Storage
) -> None:
    start_driver(journal("orders"))
    before = root.files("")
    here = "Tried on this machine's disk; workers need the same folder."
    assert hook.test_connection() == (True, f"Fit for checkpoints, and holds 1 job. {here}")
    assert root.files("") == before, "the probe is deleted again"


def test_the_test_button_names_unreadable_jobs(hook: CheckpointHook, journal: Journals, root: Storage) -> None:
    for job_id in ("orders", "rates"):
        start_driver(journal(job_id))
    newest = sorted(name for name in root.list("rates/journal"))[-1]
    root.replace(f"rates/journal/{newest}", b"[" * 100_000)
    good, message = hook.test_connection()
    assert good
    assert message.startswith("Fit for checkpoints, and holds 2 jobs. Cannot be read: rates. Tried on")
    assert {state.job_id: bool(state.damage) for state in hook.jobs()} == {"orders": False, "rates": True}


def test_the_test_button_does_not_make_an_empty_folder_a_root(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    good, message = CheckpointHook(root=str(tmp_path / "new")).test_connection()
    assert good
    assert message == (
        "Fit for checkpoints, and nothing is there yet. Tried on this machine's disk; workers need the same folder."
    )
    assert list((tmp_path / "new").iterdir()) == []


def _button(monkeypatch: pytest.MonkeyPatch, **connection: Any) -> tuple[bool, str]:
    """Call the connection test as Airflow's form does: with a made-up connection id."""
    monkeypatch.setenv("AIRFLOW_CONN_XQ7TZ", json.dumps({"conn_type": "ckpt", **connection}))
    return CheckpointHook("xq7tz").test_connection()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no root": ({}, "No root URI is given."),
    "a relative root": ({"host": "relative/x"}, "relative path"),
    "a root that no other process sees": ({"host": "memory://x"}, "lives in this process only"),
    "an endpoint that is no text": ({"host": "s3://b/x", "extra": {"endpoint_url": 9000}}, "endpoint_url"),
    "a root that Spark takes for a pattern": ({"host": "/tmp/{x}"}, "has { } in its path"),
    "extra that is no object": ({"host": "/x", "extra": "[]"}, "is not a JSON object"),
    "a folder that cannot be made": ({"host": "/proc/no-such-folder"}, "cannot be reached"),
    "no such protocol": ({"host": "foo://bucket/x"}, "foo"),
    "an extra that is no JSON": ({"host": "s3://b/x", "extra": '{"endpoint_url": bad'}, "extra is not a JSON object"),
    "a root with a space behind it": ({"host": "/tmp/x "}, "begins or ends with white space"),
    "a root with a line break": ({"host": "/tmp/x\n"}, "begins or ends with white space"),
    "extra that is no JSON": ({"host": "/x", "extra": {"storage_options": "{bad"}}, "not a JSON object"),
    "hdfs without its library": ({"host": "hdfs://nn:1/x"}, "hdfs"),
    "credentials of no use": ({"host": "/x", "login": "me"}, "s3:// only"),
}


@pytest.mark.parametrize("case", BAD)
def test_the_test_button_reports_a_problem_in_a_short_sentence(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, words = BAD[case]
    good, message = _button(monkeypatch, **connection)
    assert not good
    assert words in message
    assert len(message) <= 200
    assert "\n" not in message
    assert "xq7tz" not in message, "nobody knows that name"
    assert ".probe-" not in message


def test_the_test_button_refuses_a_foreign_root_and_a_missing_connection(tmp_path: Path) -> None:
    (tmp_path / "ckpt-root.json").write_text('{"format": "another"}')
    good, message = CheckpointHook(root=str(tmp_path)).test_connection()
    assert not good
    assert "is not a checkpoint root" in message
    good, message = CheckpointHook("nowhere").test_connection()
    assert not good
    assert "nowhere" in message


def test_the_test_button_refuses_a_root_inside_another_root(root: Storage, tmp_path: Path) -> None:
    good, message = CheckpointHook(root=str(tmp_path / "root" / "inner")).test_connection()
    assert not good
    assert "inside" in message


@pytest.mark.parametrize("job_id", [None, 3, "", "a/b"])
def test_an_invalid_job_id_is_refused(hook: CheckpointHook, job_id: Any) -> None:
    with pytest.raises(InvalidJobIdError):
        hook.job(job_id)


class BrokenStorage(LocalStorage):
    """File system whose driver raises its own error, with a secret in it."""

    def probe(self) -> None:
        raise TypeError("connect() got key=AKIA-key-1\n" + "and so on " * 100)


def test_the_test_button_hides_secrets_in_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connection = {"conn_type": "ckpt", "host": "s3://b/x", "login": "AKIA-key-1", "password": "t0psecret"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    hook = CheckpointHook("lake")
    hook.settings()
    hook._storage = BrokenStorage(str(tmp_path))
    good, message = hook.test_connection()
    assert not good
    assert message.startswith("connect() got key=*** and so on")
    assert len(message) <= 200


class OverwritingStorage(LocalStorage):
    """Storage whose exclusive creation overwrites, like s3fs until mid-2025 (R17)."""

    def create(self, path: str, data: bytes) -> None:
        self.replace(path, data)


def test_r17_the_test_button_refuses_a_storage_that_overwrites(hook: CheckpointHook, tmp_path: Path) -> None:
    hook._storage = OverwritingStorage(str(tmp_path / "bad"))
    good, message = hook.test_connection()
    assert not good
    assert "already succeeded" in message


def test_airflow_finds_the_hook_by_the_connection_type() -> None:
    assert CheckpointHook.conn_type == "ckpt"
    assert CheckpointHook.conn_name_attr == "ckpt_conn_id"
    assert CheckpointHook(**{CheckpointHook.conn_name_attr: "lake"}).ckpt_conn_id == "lake"


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("extra", [{"a": "\ud800"}, {"n": 10**400}, {"n": float("nan")}, _nested(200), _nested(5_000)])
def test_an_extra_that_cannot_be_passed_to_a_driver_is_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(InvalidCkptConnectionError, match="its extra") as refused:
        location_of("shop", None, extra, "s3://b/x")
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("error", [RecursionError(), ValueError("Exceeds the limit (4300 digits)")])
def test_an_extra_that_python_cannot_parse_is_refused(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Stored:
        @property
        def extra_dejson(self) -> dict[str, Any]:
            raise error

    monkeypatch.setattr(CheckpointHook, "get_connection", lambda self, conn_id: Stored())
    with pytest.raises(InvalidCkptConnectionError, match="its extra is not a JSON object"):
        CheckpointHook(root="s3://b/x").settings()
