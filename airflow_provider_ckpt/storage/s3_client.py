"""s3fs with a time limit for each call, and a wait for new credentials after its own have expired."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from botocore.handlers import add_expect_header
from fsspec.asyn import sync_wrapper
from s3fs import S3FileSystem

from airflow_provider_ckpt.model.backoff import backoff
from airflow_provider_ckpt.storage.client_limits import CONNECT_SECONDS, READ_SECONDS, s3_tries
from airflow_provider_ckpt.storage.credentials import seconds_to_wait
from airflow_provider_ckpt.storage.s3_refusals import EXPIRED, code_of

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0
"""Seconds between two tries: the first pause, and the maximum."""
_SLOWEST = 50_000
"""Assumed lowest speed of the network, in bytes per second."""
_NO_CODE = frozenset({"400", "403"})
"""Codes of a refused HEAD. Its answer has no body, and so no reason."""


class LimitedS3FileSystem(S3FileSystem):  # type: ignore[misc]
    """The S3 file system of s3fs, with time limits and with a wait for new credentials.

    The answer to a refused HEAD has no body. So the same key is then listed, to find out the reason.
    """

    retries = 1
    """s3fs must not retry, because botocore retries, and the numbers of tries would multiply."""

    async def set_session(self, *args: Any, **kwargs: Any) -> Any:
        client = await super().set_session(*args, **kwargs)
        # a body that waits for "100 Continue" waits without a limit
        client.meta.events.unregister("before-call.s3", add_expect_header)
        return client

    connect = sync_wrapper(set_session)

    async def _call_s3(self, method: str, *args: Any, **kwargs: Any) -> Any:
        deadline: float | None = None
        failures = 0
        while True:
            try:
                return await self._ask(method, *args, **kwargs)
            except OSError as error:
                reason = await self._reason(error, kwargs)
                if code_of(reason) not in EXPIRED:
                    raise reason from reason.__cause__
                deadline, failures = _wait_deadline(deadline, kwargs), failures + 1
                pause = backoff(failures, FIRST_PAUSE, LONGEST_PAUSE)
                if time.monotonic() + pause > deadline:
                    raise reason from reason.__cause__
            await asyncio.sleep(pause)
            await self.set_session(refresh=True)  # files, roles and the environment are read again

    call_s3 = sync_wrapper(_call_s3)

    async def _ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        seconds = longest_call(self.config_kwargs, len(kwargs.get("Body") or b""))
        return await asyncio.wait_for(super()._call_s3(method, *args, **kwargs), seconds)

    async def _reason(self, error: OSError, kwargs: Mapping[str, Any]) -> OSError:
        """Return ``error``, or an error with a more exact code. To get such an error, list the same key."""
        if code_of(error) not in _NO_CODE or "Bucket" not in kwargs:
            return error
        try:
            await self._ask("list_objects_v2", Bucket=kwargs["Bucket"], Prefix=kwargs.get("Key", ""), MaxKeys=1)
        except OSError as listing_error:
            return error if code_of(listing_error) in (None, "AccessDenied") else listing_error
        return error


def longest_call(config: Mapping[str, Any], size: int) -> float:
    """Return how many seconds one call may take with all its tries. ``size``: bytes of the request's body.

    The client's own limits do not detect a server that does not read the body.
    """
    connect, read = config.get("connect_timeout", CONNECT_SECONDS), config.get("read_timeout", READ_SECONDS)
    tries = s3_tries(config)
    return float(tries * (connect + read + size / _SLOWEST) + tries**2)


def _wait_deadline(deadline: float | None, kwargs: Mapping[str, Any]) -> float:
    """Return the monotonic time at which the wait for credentials ends. ``deadline``: None at the first refusal."""
    if deadline is not None:
        return deadline
    seconds = seconds_to_wait()
    if seconds:
        message = "the credentials for s3://%s have expired; waiting up to %g s for new ones"
        log.warning(message, kwargs.get("Bucket"), seconds)
    return time.monotonic() + seconds
