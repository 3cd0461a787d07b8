"""The S3 backend, through s3fs, against a real HTTP server on the loopback interface."""

from __future__ import annotations

import http.server
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("s3fs")
pytest.importorskip("moto.server")

from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    InvalidStorageOptionsError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageFailedError,
    StorageReadOnlyError,
    StorageTransientError,
    StorageUnreachableError,
    StorageUnsuitableError,
)
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.log.append_log import AppendLog
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.s3 import S3Storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.storage_conformance import Fault, StorageConformance
from tests.support.refusing_proxy import RefusingProxy, refusing_proxy
from tests.support.s3_server import s3_server

pytestmark = pytest.mark.slow

SECRET = "a-secret-nobody-may-see"


def options(endpoint: str) -> dict[str, Any]:
    return {
        "key": "an-access-key",
        "secret": SECRET,
        "endpoint_url": endpoint,
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 5},
    }


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(scope="module")
def proxy(endpoint: str) -> Iterator[RefusingProxy]:
    """Yield a proxy between the tested storages and the server."""
    address = urlsplit(endpoint)
    assert address.hostname
    assert address.port
    with refusing_proxy(address.hostname, address.port) as proxy:
        yield proxy


def no_wait(seconds: float) -> None:
    pass


@contextmanager
def refusing(proxy: RefusingProxy, refuse: Callable[[str], tuple[int, str] | None]) -> Iterator[None]:
    proxy.refuse = refuse
    try:
        yield
    finally:
        proxy.refuse = lambda line: None


@pytest.fixture
def bucket(endpoint: str) -> str:
    import s3fs

    name = f"b-{uuid.uuid4().hex}"
    s3fs.S3FileSystem(**options(endpoint)).call_s3("create_bucket", Bucket=name)
    return name


class TestS3Storage(StorageConformance):
    @pytest.fixture
    def storage(self, proxy: RefusingProxy, bucket: str) -> Storage:
        self.proxy = proxy
        storage = open_storage(Location(f"s3://{bucket}/root", options(proxy.uri)))
        assert isinstance(storage, S3Storage)
        storage._fs.retries = 1
        storage.sleep = no_wait
        return storage

    def faulty(self, fault: Fault) -> AbstractContextManager[None]:
        answer = {"denied": (403, "AccessDenied"), "broken": (500, "InternalError")}[fault]
        return refusing(self.proxy, lambda line: answer)

    @pytest.mark.parametrize("verb", ["exists", "read", "create", "delete", "copy", "list", "files", "delete_tree"])
    @pytest.mark.parametrize("status", [(503, "SlowDown"), (409, "ConditionalRequestConflict")])
    def test_another_status_is_not_taken_for_an_absence(
        self, storage: Storage, verb: str, status: tuple[int, str]
    ) -> None:
        storage.create("d/x", b"1")
        needed: dict[str, list[Any]] = {"create": [b""], "copy": ["to"]}
        more = needed.get(verb, [])
        path = "d" if verb in ("list", "files", "delete_tree") else "d/x"
        with refusing(self.proxy, lambda line: status), pytest.raises((StorageTransientError, StorageFailedError)):
            getattr(storage, verb)(path, *more)
        assert storage.files("") == [("d/x", 1)]

    def test_a_denied_look_is_not_taken_for_an_absence(self, storage: Storage) -> None:
        """Without the right to list, S3 answers a HEAD with 403, whether the object exists or not."""
        log = AppendLog(storage, "log", format="test")
        log.append("a")
        forbidden = lambda line: (403, "AccessDenied") if line.startswith("HEAD") else None  # noqa: E731
        with refusing(self.proxy, forbidden), pytest.raises(StorageDeniedError):
            log.is_overtaken()

    @pytest.mark.parametrize("there", [True, False], ids=["there", "absent"])
    @pytest.mark.parametrize("verb", ["read", "exists", "size", "list"])
    def test_each_reading_verb_is_one_request(self, storage: Storage, verb: str, there: bool) -> None:
        """Pollers pay for each request, and most polls find nothing. tests/costs counts one request per verb."""
        storage.create("d/x", b"1")
        path = ("d" if there else "e") + ("" if verb == "list" else "/x")
        before = len(self.proxy.lines)
        with suppress(ObjectNotFoundError):
            getattr(storage, verb)(path)
        assert len(self.proxy.lines) - before == 1, self.proxy.lines[before:]

    def test_a_folder_of_several_pages_is_listed_completely(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert isinstance(storage, S3Storage)
        for name in ("a", "b/1", "b/2", "c", "e/1"):
            storage.create(f"d/{name}", b"")
        ask = storage._fs.call_s3
        monkeypatch.setattr(storage._fs, "call_s3", lambda verb, **given: ask(verb, **given, MaxKeys=2))
        before = len(self.proxy.lines)
        assert storage.list("d") == ["a", "b", "c", "e"]
        assert len(self.proxy.lines) - before == 2

    @pytest.mark.parametrize("verb", ["read", "list", "files", "delete_tree"])
    def test_a_missing_bucket_is_not_taken_for_an_empty_bucket(self, proxy: RefusingProxy, verb: str) -> None:
        storage = open_storage(Location(f"s3://no-such-bucket-{uuid.uuid4().hex}/root", options(proxy.uri)))
        with pytest.raises(StorageUnreachableError, match="no such bucket"):
            getattr(storage, verb)("x")

    def test_a_deletion_refused_for_one_object_raises_an_error(self, storage: Storage) -> None:
        """The request succeeds, but its answer lists an object that was not deleted."""
        for number in range(3):
            storage.create(f"t/{number}", b"")
        body = (
            "<DeleteResult><Error><Key>t/1</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
        )
        with refusing(self.proxy, lambda line: (200, body) if line.startswith("POST") else None):
            with pytest.raises(StorageReadOnlyError, match="t/1"):
                storage.delete_tree("t")

    def test_many_objects_are_deleted_by_several_requests(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(5):
            storage.create(f"t/{number}", b"")
        storage.create("kept", b"")
        monkeypatch.setattr("airflow_provider_ckpt.storage.s3._AT_ONCE", 2)
        self.proxy.lines.clear()
        storage.delete_tree("t")
        assert len([line for line in self.proxy.lines if line.startswith("POST")]) == 3
        assert storage.files("") == [("kept", 0)]

    def test_a_whole_bucket_can_be_the_root(self, endpoint: str, bucket: str) -> None:
        storage = open_storage(Location(f"s3a://{bucket}/", options(endpoint)))
        storage.create("x", b"1")
        assert storage.list("") == ["x"]
        assert storage.uri == f"s3://{bucket}"
        assert storage.spark_uri("x") == f"s3a://{bucket}/x"

    def test_a_large_object_is_created_only_if_absent(self, storage: Storage) -> None:
        data = bytes(12 << 20)
        storage.create("large", data)
        with pytest.raises(AlreadyExistsError):
            storage.create("large", data)
        assert len(storage.read("large")) == len(data)

    def test_objects_of_another_writer_are_visible_at_once(self, storage: Storage, endpoint: str, bucket: str) -> None:
        other = open_storage(Location(f"s3://{bucket}/root", options(endpoint)))
        assert storage.list("x") == []
        other.create("x/1", b"")
        assert storage.list("x") == ["1"]
        other.delete("x/1")
        assert storage.list("x") == []

    def test_an_append_log_works_on_s3(self, storage: Storage) -> None:
        log = AppendLog(storage, "log", format="test")
        for number in range(5):
            log.append(number)
        log.truncate(3)
        assert [entry.body for entry in AppendLog(storage, "log", format="test").load()] == [3, 4]

    def test_the_probe_refuses_a_missing_bucket(self, endpoint: str) -> None:
        with pytest.raises(StorageUnreachableError, match="s3://no-such-bucket-here"):
            open_storage(Location("s3://no-such-bucket-here/root", options(endpoint))).probe()


class Answers(http.server.BaseHTTPRequestHandler):
    """Server that answers PUTs with the test's list of statuses, and every GET with 404."""

    protocol_version = "HTTP/1.1"  # botocore expects "100 Continue"
    statuses: list[int]
    seen: list[str | None]

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        type(self).seen.append(self.headers.get("If-None-Match"))
        self.answer(type(self).statuses.pop(0))

    def do_GET(self) -> None:
        self.answer(404)

    do_HEAD = do_DELETE = do_GET

    def answer(self, status: int) -> None:
        code = {
            200: "",
            403: "AccessDenied",
            404: "NoSuchKey",
            409: "ConditionalRequestConflict",
            412: "PreconditionFailed",
            503: "ServiceUnavailable",
        }[status]
        body = f"<Error><Code>{code}</Code><Message>no {SECRET}</Message></Error>" if code else ""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def answers() -> Iterator[type[Answers]]:
    kind = type("Answers", (Answers,), {"statuses": [], "seen": [], "server": None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    kind.uri = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    yield kind
    server.shutdown()
    thread.join()
    server.server_close()


def connect(answers: Any, waits: list[float]) -> Storage:
    storage = open_storage(Location(f"s3://bucket/{uuid.uuid4().hex}", options(answers.uri)))
    assert isinstance(storage, S3Storage)
    storage.sleep = waits.append
    return storage


def test_r17_a_409_is_retried_until_it_is_decided(answers: Any) -> None:
    waits: list[float] = []
    answers.statuses = [409, 409, 200]
    connect(answers, waits).create("x", b"1")
    assert answers.seen == ["*"] * 3
    assert len(waits) == 2
    answers.statuses = [409, 412]
    with pytest.raises(AlreadyExistsError):
        connect(answers, waits).create("x", b"1")


def test_r17_an_endless_409_is_transient(answers: Any) -> None:
    answers.statuses = [409] * 100
    with pytest.raises(StorageTransientError):
        connect(answers, []).create("x", b"1")
    assert len(answers.statuses) == 92


def test_r17_a_412_without_a_condition_means_that_the_object_exists(answers: Any) -> None:
    answers.statuses = [412]
    with pytest.raises(AlreadyExistsError):
        connect(answers, []).create("x", b"1")


def test_r17_a_store_that_ignores_the_condition_is_refused(answers: Any) -> None:
    answers.statuses = [200, 200]
    with pytest.raises(StorageUnsuitableError, match="exists already succeeded"):
        connect(answers, []).probe()


def test_a_store_without_the_right_to_write_is_refused(answers: Any) -> None:
    answers.statuses = [403]
    with pytest.raises(StorageReadOnlyError, match="s3://bucket"):
        connect(answers, []).probe()


def test_no_error_shows_a_secret(answers: Any) -> None:
    answers.statuses = [403]
    storage = connect(answers, [])
    with pytest.raises(StorageReadOnlyError) as raised:
        storage.create("x", b"1")
    assert SECRET not in str(raised.value)
    assert raised.value.__suppress_context__
    assert raised.value.__cause__ is None
    assert SECRET not in repr(storage)


def test_an_endpoint_without_a_server_is_unreachable(unused_port: int) -> None:
    storage = open_storage(Location("s3://bucket/root", options(f"http://127.0.0.1:{unused_port}")))
    storage._fs.retries = 1  # type: ignore[attr-defined]
    with pytest.raises(StorageUnreachableError, match="s3://bucket/root"):
        storage.probe()


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def test_missing_credentials_raise_an_error(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "BOTO_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    without = {"endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}, "anon": False}
    with pytest.raises((StorageDeniedError, StorageReadOnlyError), match="credentials"):
        open_storage(Location(f"s3://bucket/{uuid.uuid4().hex}", without)).create("x", b"1")


@pytest.mark.parametrize(
    "wrong",
    [{"client_kwargs": SECRET}, {"config_kwargs": [SECRET]}, {"no_such": SECRET}, {"endpoint_url": "localhost:1"}],
)
def test_options_that_the_client_refuses_are_not_retried(wrong: dict[str, Any]) -> None:
    storage = open_storage(Location("s3://bucket/x", {**options("http://127.0.0.1:1"), **wrong}))
    for call in (lambda: storage.list("a"), lambda: storage.read("a"), lambda: storage.create("a", b"")):
        with pytest.raises(InvalidStorageOptionsError, match=next(iter(wrong))) as raised:
            call()
        assert SECRET not in str(raised.value)
        assert "use_listings_cache" not in str(raised.value)
