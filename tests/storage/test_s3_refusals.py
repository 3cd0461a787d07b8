"""S3's refusals: the missing right by name, and an expired token apart from rights."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("s3fs")
pytest.importorskip("moto.server")

from airflow_provider_ckpt.storage import s3_client
from airflow_provider_ckpt.storage.credentials import wait_for_credentials
from airflow_provider_ckpt.storage.errors import (
    ObjectNotFoundError,
    StorageDeniedError,
    StorageReadOnlyError,
    StorageTokenExpiredError,
)
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.storage.test_s3 import options
from tests.support.refusing_proxy import RefusingProxy, refusing_proxy
from tests.support.s3_rights import Rights
from tests.support.s3_server import s3_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def proxy() -> Iterator[RefusingProxy]:
    with s3_server() as endpoint:
        address = urlsplit(endpoint)
        assert address.hostname
        assert address.port
        with refusing_proxy(address.hostname, address.port) as proxy:
            yield proxy


@pytest.fixture
def rights(proxy: RefusingProxy) -> Iterator[Rights]:
    proxy.rights = Rights()
    yield proxy.rights
    proxy.rights = None


@pytest.fixture
def storage(proxy: RefusingProxy, rights: Rights) -> Storage:
    import s3fs

    name = f"b-{uuid.uuid4().hex}"
    s3fs.S3FileSystem(**options(proxy.uri)).call_s3("create_bucket", Bucket=name)
    storage = open_storage(Location(f"s3://{name}/ckpt", options(proxy.uri)))
    storage.create("d/x", b"1")
    return storage


VERBS: dict[str, tuple[Callable[[Storage], Any], str]] = {
    "create": (lambda storage: storage.create("d/y", b""), "PutObject"),
    "replace": (lambda storage: storage.replace("d/x", b""), "PutObject"),
    "copy": (lambda storage: storage.copy("d/x", "d/y"), "PutObject"),
    "read": (lambda storage: storage.read("d/x"), "GetObject"),
    "exists": (lambda storage: storage.exists("d/x"), "GetObject"),
    "size": (lambda storage: storage.size("d/x"), "GetObject"),
    "list": (lambda storage: storage.list("d"), "ListBucket"),
    "files": (lambda storage: storage.files("d"), "ListBucket"),
    "delete": (lambda storage: storage.delete("d/x"), "DeleteObject"),
    "delete_tree": (lambda storage: storage.delete_tree("d"), "DeleteObject"),
}
VERB_IN_MESSAGE = {"exists": "look for", "size": "read", "files": "list", "delete_tree": "delete"}


@pytest.mark.parametrize("verb", VERBS)
def test_d23_a_refusal_names_verb_key_and_right(storage: Storage, rights: Rights, verb: str) -> None:
    act, right = VERBS[verb]
    rights.deny(right, "ckpt/d")
    with pytest.raises((StorageReadOnlyError, StorageDeniedError)) as raised:
        act(storage)
    message = str(raised.value)
    assert message.startswith(f"the storage refused to {VERB_IN_MESSAGE.get(verb, verb)} {storage.uri}/d")
    assert f"s3:{right}" in message
    assert ("s3:ListBucket" in message) == (right == "ListBucket")


@pytest.mark.parametrize("verb", ["read", "exists", "size", "copy"])
def test_d23_an_absent_object_without_list_rights_names_that_right(storage: Storage, rights: Rights, verb: str) -> None:
    """S3 then answers 403, even to a user who may read every object."""

    def act() -> Any:
        return storage.copy("d/z", "d/y") if verb == "copy" else getattr(storage, verb)("d/z")

    if verb != "exists":
        with pytest.raises(ObjectNotFoundError):
            act()
    rights.deny("ListBucket", "ckpt")
    with pytest.raises(StorageDeniedError, match=r"/ckpt/d/z: .*s3:ListBucket on the bucket"):
        act()
    assert storage.read("d/x") == b"1"


@pytest.mark.parametrize("verb", VERBS)
def test_d23_an_expired_token_is_not_reported_as_a_missing_right(storage: Storage, rights: Rights, verb: str) -> None:
    rights.expired = True
    with pytest.raises(StorageTokenExpiredError) as raised:
        VERBS[verb][0](storage)
    assert raised.value.retryable
    message = str(raised.value)
    first = "list" if verb == "delete_tree" else VERB_IN_MESSAGE.get(verb, verb)
    assert message.startswith(f"the storage does not {first} {storage.uri}/d")
    assert "the credentials have expired" in message
    assert "right" not in message
    rights.allow_all()
    assert storage.files("") == [("d/x", 1)]  # no verb took effect


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process wait for new credentials, with short pauses."""
    monkeypatch.setattr(s3_client, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(s3_client, "FIRST_PAUSE", 0.05)
    wait_for_credentials(30)
    yield
    wait_for_credentials(0)


@pytest.mark.parametrize("verb", VERBS)
def test_d23_a_driver_waits_for_a_new_token(storage: Storage, rights: Rights, verb: str, short_waits: None) -> None:
    rights.expired = True
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(VERBS[verb][0](storage)), daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while rights.refused < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert rights.refused >= 3
    assert not answers
    rights.allow_all()
    thread.join(30)
    assert len(answers) == 1


def test_d23_a_driver_stops_waiting_for_a_token_after_its_timeout(
    storage: Storage, rights: Rights, short_waits: None
) -> None:
    wait_for_credentials(0.2)
    rights.expired = True
    with pytest.raises(StorageTokenExpiredError):
        storage.read("d/x")
    assert rights.refused >= 2


@pytest.mark.parametrize("right", ["PutObject", "GetObject", "ListBucket", "DeleteObject"])
def test_d23_rights_are_checked_with_an_object_that_is_deleted_again(
    storage: Storage, rights: Rights, right: str
) -> None:
    storage.check_rights("orders")
    assert "ckpt/.rights-orders" not in _keys(storage)
    rights.deny(right, "ckpt")
    with pytest.raises((StorageReadOnlyError, StorageDeniedError), match=f"s3:{right}"):
        storage.check_rights("orders")
    rights.allow_all()
    storage.check_rights("orders")  # also where the last one could not be deleted
    assert "ckpt/.rights-orders" not in _keys(storage)


def _keys(storage: Storage) -> list[str]:
    bucket = storage.uri.split("/")[2]
    page = storage._fs.call_s3("list_objects_v2", Bucket=bucket)  # type: ignore[attr-defined]
    return [entry["Key"] for entry in page.get("Contents", ())]


def test_d23_wrong_keys_are_not_reported_as_a_missing_right(storage: Storage, proxy: RefusingProxy) -> None:
    proxy.refuse = lambda line: (403, "SignatureDoesNotMatch")
    try:
        for call in (lambda: storage.read("d/x"), lambda: storage.exists("d/x")):
            with pytest.raises(StorageDeniedError, match="the job needs valid credentials"):
                call()
    finally:
        proxy.refuse = lambda line: None
