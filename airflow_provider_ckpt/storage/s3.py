"""S3 and what speaks its protocol, through s3fs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from airflow_provider_ckpt.storage.fsspec_storage import FsspecStorage

_TRIES = 8


class S3Storage(FsspecStorage):
    """``If-None-Match: *`` has two refusals (R17): 412, the object is there; 409, somebody is writing it
    right now and may still fail, so ask again. Not every store names the condition in its 412, which is what
    s3fs looks for, so the status of the reply decides here."""

    sleep: Callable[[float], None] = staticmethod(time.sleep)

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


def _http_status(error: BaseException) -> int | None:
    """Status of the reply behind an error of s3fs, which keeps botocore's as the cause."""
    seen: BaseException | None = error
    while seen is not None:
        response: Any = getattr(seen, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if isinstance(status, int):
                return status
        seen = seen.__cause__
    return None
