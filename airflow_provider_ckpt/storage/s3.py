"""Storage on S3 and compatible stores, with s3fs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow_provider_ckpt.model.backoff import backoff
from airflow_provider_ckpt.storage.client_limits import TRIES, users_options
from airflow_provider_ckpt.storage.errors import (
    InvalidStorageOptionsError,
    StorageDeniedError,
    StorageTokenExpiredError,
)
from airflow_provider_ckpt.storage.fsspec_storage import FsspecStorage
from airflow_provider_ckpt.storage.redaction import redact
from airflow_provider_ckpt.storage.s3_refusals import LISTING, has_expired, is_denied, response_of, right_for

_TRIES, _FIRST_PAUSE, _LONGEST_PAUSE = 8, 0.05, 3.2
_READS = frozenset({"read", "look for", "copy"})
_AT_ONCE = 1000  # objects that one request can delete
_BROKEN_OFF = {"ClientPayloadError", "IncompleteRead", "IncompleteReadError", "ResponseStreamingError"}
"""Names of the errors for an answer that ends early. botocore repeats a request only before the answer begins."""
_NO_OBJECT = {"NoSuchKey", "NoSuchVersion", "404"}
"""S3's codes for an object that does not exist. s3fs raises FileNotFoundError for a missing bucket, too."""


class S3Storage(FsspecStorage):
    """Storage on S3.

    S3 refuses ``If-None-Match: *`` in two ways (R17). Status 412 means that the object exists. Status 409 means that
    another writer is writing the object and may still fail, so the request is repeated. Only the status is checked,
    because some stores do not name the condition.
    """

    sleep: Callable[[float], None] = staticmethod(time.sleep)

    @contextmanager
    def _guard(self, verb: str, path: str, *, write: bool = False) -> Iterator[None]:
        """Convert the errors of this block. s3fs reports wrong options only at the first request."""
        with super()._guard(verb, path, write=write):
            try:
                yield
            except (AttributeError, TypeError, ValueError) as error:
                if getattr(self._fs, "_s3", self._fs) is not None or type(error).__module__ != "builtins":
                    raise
                names = users_options(self._fs.storage_options)
                reason = redact(str(error), self._secrets)
                raise InvalidStorageOptionsError(names=names, uri=self.uri, reason=reason) from None
            except OSError as error:
                uri, reason = self.full_uri(path), redact(str(error), self._secrets)
                if has_expired(error):
                    raise StorageTokenExpiredError(verb=verb, uri=uri, reason=reason) from None
                if verb in _READS and is_denied(error) and not self._may_list(path):
                    raise StorageDeniedError(verb=verb, uri=uri, reason=reason, right=LISTING) from None
                raise

    def _right(self, verb: str, error: BaseException) -> str:
        return right_for(verb, error)

    def _may_list(self, path: str) -> bool:
        bucket, key, _ = self._fs.split_path(self._full(path, root=True))
        try:
            self._fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=key, MaxKeys=1)
        except OSError as error:
            return not is_denied(error)
        return True

    def _create(self, full: str, data: bytes) -> bool:
        for attempt in range(_TRIES):
            try:
                return super()._create(full, data)
            except OSError as error:
                status = _http_status(error)
                if status == 412:
                    return False
                if status != 409 or attempt == _TRIES - 1:
                    raise
            self.sleep(backoff(attempt + 1, _FIRST_PAUSE, _LONGEST_PAUSE))
        raise AssertionError("unreachable")

    def _read(self, full: str, start: int | None = None, end: int | None = None) -> bytes:
        # With its default concurrency s3fs reads the size first, a second request for each poll of a tail.
        for attempt in range(TRIES):
            try:
                data: bytes = self._fs.cat_file(full, start=start, end=end, max_concurrency=1)
                return data
            except Exception as error:
                if type(error).__name__ not in _BROKEN_OFF or attempt == TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def _exists(self, full: str) -> bool:
        self._size(full)
        return True

    def _size(self, full: str) -> int:
        # info() would also list, to see whether the name is a folder.
        bucket, key, _ = self._fs.split_path(full)
        return int(self._fs.call_s3("head_object", Bucket=bucket, Key=key)["ContentLength"])

    def _names(self, full: str, most: int | None) -> Iterable[str]:
        # ls() of a missing folder lists the parent, too, which would double the price of polling for requests.
        names: list[str] = []
        bucket, prefix = self._bucket_and_prefix(full)
        for page in self._pages(bucket, prefix, Delimiter="/"):
            names += [item["Prefix"].rstrip("/") for item in page.get("CommonPrefixes", ())]
            names += [item["Key"] for item in page.get("Contents", ())]
            if most is not None and len(names) >= most:
                break
        return [name[len(prefix) :] for name in names]

    def _find(self, path: str) -> dict[str, int]:
        # find() bypasses call_s3(), which waits for new credentials
        full = self._full(path, root=True)
        bucket, prefix = self._bucket_and_prefix(full)
        sizes: dict[str, int] = {}
        with self._guard("list", path):
            try:
                for page in self._pages(bucket, prefix):
                    sizes.update({f"{bucket}/{item['Key']}": int(item["Size"]) for item in page.get("Contents", ())})
            except FileNotFoundError as error:
                self._check_absence(error)
        return {name: size for name, size in sizes.items() if not name.endswith("/")}

    def _bucket_and_prefix(self, full: str) -> tuple[str, str]:
        """Return (bucket of a folder, prefix of the folder's keys)."""
        bucket, key, _ = self._fs.split_path(full)
        return bucket, f"{key}/" if key else ""

    def _pages(self, bucket: str, prefix: str, **options: str) -> Iterator[dict[str, Any]]:
        continuation: dict[str, str] = {}
        while True:
            page = self._fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **options, **continuation)
            yield page
            if not page.get("IsTruncated"):
                return
            continuation = {"ContinuationToken": page["NextContinuationToken"]}

    def _is_absence(self, error: FileNotFoundError) -> bool:
        response = response_of(error)
        return response is None or response.get("Error", {}).get("Code") in _NO_OBJECT

    def _delete_all(self, names: Sequence[str]) -> None:
        # s3fs sends the same request and ignores the answer, so refused deletions would go unnoticed.
        for start in range(0, len(names), _AT_ONCE):
            keys = [self._fs.split_path(name)[:2] for name in names[start : start + _AT_ONCE]]
            listed = {"Objects": [{"Key": key} for _, key in keys], "Quiet": True}
            answer = self._fs.call_s3("delete_objects", Bucket=keys[0][0], Delete=listed)
            for error in answer.get("Errors", []):
                if error.get("Code") not in _NO_OBJECT:
                    kind = PermissionError if error.get("Code") == "AccessDenied" else OSError
                    raise kind(f"{error.get('Key')}: {error.get('Code')} {error.get('Message', '')}")


def _http_status(error: BaseException) -> int | None:
    status = (response_of(error) or {}).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else None
