"""S3 and what speaks its protocol, through s3fs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow_provider_ckpt.storage.errors import InvalidStorageOptionsError
from airflow_provider_ckpt.storage.fsspec_storage import FsspecStorage
from airflow_provider_ckpt.storage.redaction import redact

_TRIES = 8
_AT_ONCE = 1000  # objects that one request can delete
_NO_OBJECT = {"NoSuchKey", "NoSuchVersion", "404"}
"""What a store says of an object that does not exist. (A missing bucket is a FileNotFoundError to s3fs, too.)"""


class S3Storage(FsspecStorage):
    """``If-None-Match: *`` has two refusals (R17): 412, the object is there; 409, somebody is writing it
    right now and may still fail, so ask again. Not every store names the condition in its 412, which is what
    s3fs looks for, so the status of the reply decides here."""

    sleep: Callable[[float], None] = staticmethod(time.sleep)

    @contextmanager
    def _guard(self, verb: str, path: str, *, write: bool = False) -> Iterator[None]:
        """s3fs makes its client with the first request, and finds there what is wrong with the options."""
        with super()._guard(verb, path, write=write):
            try:
                yield
            except (AttributeError, TypeError, ValueError) as error:
                if getattr(self._fs, "_s3", self._fs) is not None or type(error).__module__ != "builtins":
                    raise
                names = sorted(self._fs.storage_options.keys() - {"use_listings_cache"})
                reason = redact(str(error), self._secrets)
                raise InvalidStorageOptionsError(names=names, uri=self.uri, reason=reason) from None

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
            self.sleep(0.05 * 2**attempt)
        raise AssertionError("unreachable")

    def _read(self, full: str, start: int | None = None, end: int | None = None) -> bytes:
        # With its default concurrency s3fs asks for the size first: a second request for each poll of a tail.
        data: bytes = self._fs.cat_file(full, start=start, end=end, max_concurrency=1)
        return data

    def _exists(self, full: str) -> bool:
        self._size(full)
        return True

    def _size(self, full: str) -> int:
        # info() would also list, to see whether the name is a folder.
        bucket, key, _ = self._fs.split_path(full)
        return int(self._fs.call_s3("head_object", Bucket=bucket, Key=key)["ContentLength"])

    def _names(self, full: str, most: int | None) -> Iterable[str]:
        # Where nothing is, ls() lists the parent, too: twice the price of the look that a driver takes for requests.
        bucket, key, _ = self._fs.split_path(full)
        prefix = f"{key}/" if key else ""
        names: list[str] = []
        more: dict[str, str] = {}
        while True:
            page = self._fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, Delimiter="/", **more)
            names += [one["Prefix"].rstrip("/") for one in page.get("CommonPrefixes", ())]
            names += [one["Key"] for one in page.get("Contents", ())]
            if not page.get("IsTruncated") or (most is not None and len(names) >= most):
                return [name[len(prefix) :] for name in names]
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _is_absence(self, error: FileNotFoundError) -> bool:
        response = _response(error)
        return response is None or response.get("Error", {}).get("Code") in _NO_OBJECT

    def _delete_all(self, names: Sequence[str]) -> None:
        # s3fs asks the same, and does not look at the answer: what was refused would stay in silence.
        for start in range(0, len(names), _AT_ONCE):
            keys = [self._fs.split_path(name)[:2] for name in names[start : start + _AT_ONCE]]
            listed = {"Objects": [{"Key": key} for _, key in keys], "Quiet": True}
            answer = self._fs.call_s3("delete_objects", Bucket=keys[0][0], Delete=listed)
            for error in answer.get("Errors", []):
                if error.get("Code") not in _NO_OBJECT:
                    kind = PermissionError if error.get("Code") == "AccessDenied" else OSError
                    raise kind(f"{error.get('Key')}: {error.get('Code')} {error.get('Message', '')}")


def _http_status(error: BaseException) -> int | None:
    status = (_response(error) or {}).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def _response(error: BaseException) -> dict[str, Any] | None:
    """The reply behind an error of s3fs, which keeps botocore's as the cause."""
    seen: BaseException | None = error
    while seen is not None:
        response: Any = getattr(seen, "response", None)
        if isinstance(response, dict):
            return response
        seen = seen.__cause__
    return None
