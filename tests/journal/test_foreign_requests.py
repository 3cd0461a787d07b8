"""Files in ``requests/`` that are no requests, and requests that are refused."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.change_scope import by_vertex
from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.journal.errors import RequestTooLargeError
from airflow_provider_ckpt.journal.request_files import (
    MOST_BYTES,
    MOST_FILES,
    forget_requests,
    pending_requests,
    read_request,
    requests_before,
    withdraw_leaves,
    write_request,
)
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_request import (
    REQUESTS,
    InvalidRequest,
    JobRequest,
    ReconfigureRequest,
    StopRequest,
)
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage

NAME = "by-hand"
PATH = f"orders/requests/{NAME}.json"
HEAD = '{"format": "airflow-provider-ckpt/request", "version": 1'


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def read(storage: Storage) -> JobRequest:
    request = read_request(storage, "orders", NAME, 7)
    assert request is not None
    return request


def refused(storage: Storage) -> InvalidRequest:
    request = read(storage)
    assert isinstance(request, InvalidRequest)
    return request


def request_with(**fields: Any) -> bytes:
    stop = {"kind": "stop", "epoch": 7, "at": 1.0}
    return f"{HEAD}, {json.dumps({**stop, **fields})[1:]}".encode()


NO_REQUEST = {
    "nothing": (b"", "no JSON"),
    "text": (b"stop!", "no JSON"),
    "cut off": (request_with()[:-9], "no JSON"),
    "a list": (b"[]", "it is no JSON object"),
    "another format": (b'{"format": "another/request", "version": 1}', "its format is 'another/request'"),
    "changed afterwards": (request_with()[:-1] + b', "crc32": "00000000"}', "it was changed after it was written"),
    "nested lists": (b"[" * 30_000 + b"]" * 30_000, "nested deeper than 100 levels"),
    "nested objects": (
        request_with()[:-1] + b', "x":' + b'{"a":' * 9_000 + b"1" + b"}" * 9_001,
        "nested deeper than 100",
    ),
    "a long number": (request_with().replace(b'"epoch": 7', b'"epoch": ' + b"7" * 400), "more than 100 digits"),
    "a time beyond floats": (request_with().replace(b'"at": 1.0', b'"at": 1e999'), "a number in it is too large"),
    "NaN": (request_with().replace(b'"at": 1.0', b'"at": NaN'), "NaN in it is no number"),
    "half a surrogate pair": (request_with(kind="upgrade", job="\ud800"), "it is no text in UTF-8"),
    "a key twice": (request_with()[:-1] + b', "kind": "drain"}', "a key is twice in one object"),
    "too large": (b'{"a": "' + b"x" * MOST_BYTES + b'"}', f"it has more than {MOST_BYTES} bytes"),
}


@pytest.mark.parametrize(("content", "problem"), NO_REQUEST.values(), ids=NO_REQUEST)
def test_an_unreadable_request_file_is_named_and_not_answered(storage: Storage, content: bytes, problem: str) -> None:
    storage.create(PATH, content)
    request = refused(storage)
    assert (request.epoch, request.is_unreadable) == (7, True)
    assert problem in request.problem
    assert f"{NAME}.json" in request.problem


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to(path.with_name("pipe"))


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def listening(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    here = os.getcwd()
    os.fchdir(folder)  # the name of a socket has few characters
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)
        os.close(folder)


@pytest.mark.parametrize("make", [link_to_itself, pipe, link_to_a_pipe, device, sparse, listening])
def test_a_special_file_among_requests_neither_blocks_nor_fails(
    storage: Storage, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    good = write_request(storage, "orders", StopRequest(epoch=7)).name
    make(tmp_path / PATH)
    assert refused(storage).is_unreadable
    assert [request.name for request in pending_requests(storage, "orders", 7, ())] == [good, NAME]
    assert requests_before(storage, "orders", 7) == []
    assert withdraw_leaves(storage, "orders", 7) == 0
    forget_requests(storage, "orders", 8)
    assert storage.list("orders/requests") == sorted({f"{NAME}.json", *(["pipe"] if "a_pipe" in make.__name__ else [])})


def test_a_folder_is_no_request(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / PATH).mkdir(parents=True)
    assert pending_requests(storage, "orders", 7, ()) == []


def test_a_link_among_requests_is_invalid(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / PATH).parent.mkdir(parents=True)
    (tmp_path / PATH).symlink_to("nowhere")
    [request] = pending_requests(storage, "orders", 7, ())
    assert isinstance(request, InvalidRequest)
    assert request.is_unreadable


def test_a_request_file_of_another_user_is_no_storage_failure(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``sudo ckpt stop`` with umask 077 writes a file that the driver may not read."""
    storage.create(PATH, request_with())
    opened = os.open

    def refuse(path: Any, *args: Any, **given: Any) -> int:
        if str(path).endswith(f"{NAME}.json"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *args, **given)

    monkeypatch.setattr(os, "open", refuse)
    request = refused(storage)
    assert request.is_unreadable
    assert "Permission denied" in request.problem


def test_an_unreachable_storage_fails_the_read_of_a_request(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> bytes:
        raise StorageTransientError(verb="read", uri=PATH, reason="503")

    storage.create(PATH, request_with())
    monkeypatch.setattr(type(storage), "read_range", fail)
    with pytest.raises(StorageTransientError):
        read(storage)


@pytest.mark.parametrize("name", ["two words", "two\nlines", "ü", "x" * 240, "-dash", "\udcff"])
def test_a_file_with_an_impossible_request_name_is_not_read(storage: Storage, name: str) -> None:
    request = read_request(storage, "orders", name, 7)
    assert isinstance(request, InvalidRequest)
    assert (request.is_unreadable, request.problem) == (True, "no request has such a name")


def by(parallelism: Any) -> dict[str, Any]:
    return {"kind": "reconfigure", "changes": {"h": {"parallelism": parallelism}}}


REFUSED = {
    "another kind": ({"kind": "halt"}, "kind 'halt'"),
    "no kind": ({"kind": ["stop"]}, "kind ['stop']"),
    "an epoch that is true": ({"epoch": True}, "epoch True"),
    "an epoch of a fraction": ({"epoch": 7.0}, "epoch 7.0"),
    "no epoch yet": ({"epoch": 0}, "epoch 0"),
    "a negative epoch": ({"epoch": -1}, "epoch -1"),
    "an epoch beyond 64 bits": ({"epoch": 2**63}, f"epoch {2**63}"),
    "a time that is true": ({"at": True}, "at True"),
    "a time before time": ({"at": -1}, "at -1"),
    "a time in a million years": ({"at": 10**15}, f"at {10**15}"),
    "no request": ({"kind": "invalid", "problem": "none"}, "kind 'invalid'"),
    "leaves as a text": ({"exit_if_it_fails": "no"}, "exit_if_it_fails: 'no'"),
    "at_once as a number": ({"kind": "drain", "at_once": 1}, "at_once: 1"),
    "a field of another kind": ({"at_once": True}, "StopRequest with the unknown fields ['at_once']"),
    "a name of its own": ({"name": "another"}, "unknown fields ['name']"),
    "a change by a controller": ({"kind": "reconfigure", "changes": {}, "by": "scaler"}, "unknown fields ['by']"),
    "rescaled to none": (by(0), "parallelism is a whole number above 0"),
    "rescaled to many": (by(2**31), "parallelism is 2147483647 at the most"),
    "rescaled to a fraction": (by(2.0), "parallelism: 2.0"),
    "an upgrade to a number": ({"kind": "upgrade", "job": 3}, "job: 3"),
    "an upgrade that may be anything": ({"kind": "upgrade", "allow_non_restored_state": 1}, "allow_non_restored_state"),
    "no changes": ({"kind": "reconfigure"}, "it has no changes"),
    "empty changes": ({"kind": "reconfigure", "changes": {}}, "it has no changes"),
    "a change without a setting": ({"kind": "reconfigure", "changes": {"h": {}}}, "changes of h: no setting is given"),
    "changes of a list": ({"kind": "reconfigure", "changes": [1]}, "changes: [1]"),
}
SETTINGS: list[tuple[str, Any]] = [
    ("max_files_per_batch", 0),
    ("max_files_per_batch", 2**31),
    ("max_bytes_per_batch", -1),
    ("max_bytes_per_batch", 2**63),
    ("state_partitions", -5),
    ("state_partitions", True),
    ("pool_weight", 0),
    ("pool_weight", "2"),
    ("trigger_interval", -0.5),
    ("trigger_interval", 1e12),
    ("trigger_interval", 10**99),
    ("executors", -1),
    ("executors", 1.5),
    ("parallelism", 0),
]


@pytest.mark.parametrize(("fields", "problem"), REFUSED.values(), ids=REFUSED)
def test_an_impossible_request_is_refused_with_its_value(
    storage: Storage, fields: dict[str, Any], problem: str
) -> None:
    storage.create(PATH, request_with(**fields))
    request = refused(storage)
    assert (request.is_unreadable, request.is_change) == (False, False)
    assert problem in request.problem


@pytest.mark.parametrize(("setting", "value"), SETTINGS, ids=[f"{name}={value}"[:40] for name, value in SETTINGS])
def test_a_setting_out_of_range_is_refused_when_the_request_is_read(storage: Storage, setting: str, value: Any) -> None:
    storage.create(PATH, request_with(kind="reconfigure", changes={"daily": {"pool_weight": 2, setting: value}}))
    request = refused(storage)
    assert request.epoch == 7
    assert setting in request.problem


def test_the_problem_of_a_request_is_short_for_any_file(storage: Storage) -> None:
    storage.create(PATH, request_with(kind="x" * 50_000))
    assert len(refused(storage).problem) <= 300


def test_a_request_that_is_too_large_is_not_written(storage: Storage, tmp_path: Path) -> None:
    changes = {f"operator-{n}": VertexSettings(logic={f"operator-{n}": "jobs/v2.py:job"}) for n in range(1_000)}
    with pytest.raises(RequestTooLargeError, match="change fewer operators at a time"):
        write_request(storage, "orders", ReconfigureRequest(changes, epoch=7))
    assert list(tmp_path.iterdir()) == []
    some = dict(list(changes.items())[:200])
    name = write_request(storage, "orders", ReconfigureRequest(some, epoch=7)).name
    (request,) = pending_requests(storage, "orders", 7, ())
    assert request == ReconfigureRequest(some, name=name, epoch=7, at=request.at)


def test_the_number_of_request_files_that_are_read_is_limited(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "orders/requests").mkdir(parents=True)
    for number in range(MOST_FILES + 50):
        (tmp_path / f"orders/requests/{number}.json").touch()
    assert len(pending_requests(storage, "orders", 7, ())) == MOST_FILES


# ---- mutations of the golden requests, with fixed seeds

GOLDEN = sorted((Path(__file__).parent.parent / "golden" / "request-v1").glob("*.json"))
VALUES: list[Any] = [
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**99, -(10**99), 1e308, -0.0, "", "x" * 9_000, "\0", "\u202e", "orders"),
    *([], {}, [[[]]], {"a": {"b": 1}}, {"daily": {}}, {"daily": {"pool_weight": 0}}, {"daily": {"logic": {"a": None}}}),
]
GRAPH = JobGraph((JobVertex("daily", ("live", "daily"), ("live",), (), ("lake",), bounded=False),), ())


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield (*path, key)
            yield from places(value, (*path, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    copied = json.loads(json.dumps(document))
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copied


def check(storage: Storage, content: bytes) -> str:
    """Read the content as a request of the driver's epoch, and judge it as a coordinator does; return its kind."""
    storage.replace(PATH, content)
    request = read(storage)
    assert request.kind in (*REQUESTS, "invalid")
    if isinstance(request, ReconfigureRequest):
        with suppress(ReconfigurationRefusedError):
            by_vertex(GRAPH, request.changes)
    return request.kind


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_request_with_any_changed_value_is_read_or_invalid(storage: Storage, golden: Path) -> None:
    document = json.loads(golden.read_bytes())
    document.pop("crc32", None)
    kinds = {
        check(storage, json.dumps(changed(document, path, value)).encode())
        for path in places(document)
        for value in VALUES
    }
    assert {"invalid", document["kind"]} <= kinds


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_request_with_any_changed_bytes_is_read_or_invalid(storage: Storage, golden: Path) -> None:
    data, drawn = golden.read_bytes(), random.Random(golden.name)
    for _ in range(300):
        mutated = bytearray(data)
        for _ in range(drawn.randint(1, 4)):
            place = drawn.randrange(len(mutated))
            mutated[place : place + drawn.randint(0, 3)] = drawn.randbytes(drawn.randint(0, 3))
        check(storage, bytes(mutated))
    for length in range(0, len(data) - 2, 7):
        assert check(storage, data[:length]) == "invalid"
