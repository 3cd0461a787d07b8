"""The translation of this package's errors to Airflow's. Airflow may retry a task after a transient error only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from airflow_provider_ckpt.errors import TerminalError, TransientError
from airflow_provider_ckpt.storage.redaction import redact_text


@contextmanager
def airflow_failures() -> Iterator[None]:
    try:
        yield
    except TerminalError as error:
        raise AirflowFailException(redact_text(str(error))) from error
    except AirflowNotFoundException as error:  # the next try would not find the connection either
        raise AirflowFailException(f"{error}. Create it with type ckpt, or name another one.") from error
    except TransientError as error:
        raise AirflowException(redact_text(str(error))) from error
