"""The buttons of a task that runs a job: a link to Spark's UI, and a link to the folder of the job's output.

Airflow asks for a link only when the task is over. This module pushes each link as soon as the driver has reported it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

    from airflow_provider_ckpt.operators.pointer import Pointer


class JobLink(BaseOperatorLink):
    """Button of a task that runs a job."""

    def of(self, pointer: Pointer) -> str:
        """Return the link that the driver has reported. Airflow shows no button for an empty link."""
        raise NotImplementedError

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        run = getattr(operator, "_ckpt_run", None)  # None if the task was refused before it found its job
        return "" if run is None else self.of(run.pointer)


class SparkUILink(JobLink):
    """Link to Spark's page for the last driver. After the driver's end only a link to a history server works."""

    name = "Spark UI"

    def of(self, pointer: Pointer) -> str:
        return _web_link(pointer.spark_ui or "")


class OutputLink(JobLink):
    """Link to the cloud console's page for the job's first output folder in S3 or Google Cloud Storage, if any."""

    name = "Output"

    def of(self, pointer: Pointer) -> str:
        return next((link for link in map(browsable, pointer.outputs.values()) if link), "")


def _web_link(url: str) -> str:
    """Return a link that a browser may follow, and an empty text for any other link, such as ``javascript:``."""
    return url if urlsplit(url).scheme in ("http", "https") else ""


LINKS = (SparkUILink(), OutputLink())


def browsable(uri: str) -> str:
    """Return the URL of the cloud console's page for a folder in S3 or Google Cloud Storage, else an empty text."""
    parts = urlsplit(uri)
    folder = parts.path.strip("/")
    if parts.scheme in ("s3", "s3a"):
        return f"https://s3.console.aws.amazon.com/s3/buckets/{quote(parts.netloc)}?prefix={quote(folder)}/"
    if parts.scheme in ("gs", "gcs"):
        return f"https://console.cloud.google.com/storage/browser/{quote(parts.netloc)}/{quote(folder)}"
    return ""


class LinkPusher:
    """Writer of the links as XComs while the task runs. One thread calls :meth:`update` for each line of the driver."""

    def __init__(self, push: Callable[[str, str], object], warn: Callable[[str, Exception], object]) -> None:
        self._push, self._warn = push, warn
        self._pushed: Mapping[str, str] = {}

    def update(self, pointer: Pointer) -> None:
        """Push the changed links. A failure is only logged, because Airflow asks for the links again after the task."""
        links = {button.xcom_key: link for button in LINKS if (link := button.of(pointer))}
        changed = {key: link for key, link in links.items() if self._pushed.get(key) != link}
        self._pushed = links
        try:
            for key, link in changed.items():
                self._push(key, link)
        except Exception as error:
            self._warn("Could not show a link: %s", error)
