"""The buttons of a task that runs a job: to Spark's UI, and to where its rows come out.

Airflow asks for a link when the task is over, on the worker, and keeps it as an XCom. Whoever looks at a running job
wants it sooner: it is pushed under the same key as soon as the driver has said it.
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
    """``of``: the link, of what the driver has said; empty while there is none, which Airflow shows as no link."""

    def of(self, pointer: Pointer) -> str:
        raise NotImplementedError

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        run = getattr(operator, "_ckpt_run", None)  # none: refused before a job was found
        return "" if run is None else self.of(run.pointer)


class SparkUILink(JobLink):
    """The application of the last driver. Gone with it, unless the URL is that of a history server."""

    name = "Spark UI"

    def of(self, pointer: Pointer) -> str:
        return _web_link(pointer.spark_ui or "")


class OutputLink(JobLink):
    """The folder of the job's first sink that has one."""

    name = "Output"

    def of(self, pointer: Pointer) -> str:
        return next((link for link in map(browsable, pointer.outputs.values()) if link), "")


def _web_link(url: str) -> str:
    """Return a link that a browser may follow; empty for any other, such as ``javascript:``."""
    return url if urlsplit(url).scheme in ("http", "https") else ""


LINKS = (SparkUILink(), OutputLink())


def browsable(uri: str) -> str:
    """Return the page of a cloud's console that shows ``uri``; empty for a place that has none."""
    parts = urlsplit(uri)
    folder = parts.path.strip("/")
    if parts.scheme in ("s3", "s3a"):
        return f"https://s3.console.aws.amazon.com/s3/buckets/{quote(parts.netloc)}?prefix={quote(folder)}/"
    if parts.scheme in ("gs", "gcs"):
        return f"https://console.cloud.google.com/storage/browser/{quote(parts.netloc)}/{quote(folder)}"
    return ""


class LinkPusher:
    """``push``: an XCom, by its key. Pushes what has changed; called for each line of the driver, in one thread."""

    def __init__(self, push: Callable[[str, str], object], warn: Callable[[str, Exception], object]) -> None:
        self._push, self._warn = push, warn
        self._pushed: Mapping[str, str] = {}

    def see(self, pointer: Pointer) -> None:
        """A link that cannot be pushed now is no reason to stop the job: Airflow asks again at the end."""
        links = {one.xcom_key: link for one in LINKS if (link := one.of(pointer))}
        news = {key: link for key, link in links.items() if self._pushed.get(key) != link}
        self._pushed = links
        try:
            for key, link in news.items():
                self._push(key, link)
        except Exception as error:
            self._warn("Could not show a link: %s", error)
