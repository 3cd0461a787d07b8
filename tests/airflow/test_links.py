"""Buttons of a task: links to Spark's UI and to its output, during the run and afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ckpt.operators.links import LinkPusher, OutputLink, SparkUILink, browsable
from airflow_provider_ckpt.operators.pointer import Pointer

POINTER = Pointer("orders", "/root", 1, 2)
UI = "http://driver:4040"
KEY = "_link_SparkUILink"


@pytest.mark.parametrize(
    ("uri", "link"),
    [
        ("s3://lake/a b/orders", "https://s3.console.aws.amazon.com/s3/buckets/lake?prefix=a%20b/orders/"),
        ("s3a://lake/orders/", "https://s3.console.aws.amazon.com/s3/buckets/lake?prefix=orders/"),
        ("gs://lake/orders", "https://console.cloud.google.com/storage/browser/lake/orders"),
        ("file:///lake/orders", ""),
        ("/lake/orders", ""),
        ("javascript:alert(1)", ""),
        ('s3://a"onclick=b/x', "https://s3.console.aws.amazon.com/s3/buckets/a%22onclick%3Db?prefix=x/"),
        ("hdfs://name:8020/lake", ""),
    ],
)
def test_a_folder_is_linked_if_a_browser_can_show_it(uri: str, link: str) -> None:
    assert browsable(uri) == link


def test_the_output_link_is_the_first_folder_that_a_browser_can_show() -> None:
    outputs = {"away": "hdfs://name:8020/lake", "lake": "gs://lake/orders"}
    assert OutputLink().of(replace(POINTER, outputs=outputs)).endswith("/browser/lake/orders")
    assert OutputLink().of(POINTER) == SparkUILink().of(POINTER) == ""


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//x", "x"])
def test_only_http_links_are_shown(url: str) -> None:
    assert SparkUILink().of(replace(POINTER, spark_ui=url)) == ""
    assert SparkUILink().of(replace(POINTER, spark_ui="https://history/app-1")) == "https://history/app-1"


def test_a_link_is_pushed_once_for_each_driver() -> None:
    pushed: list[tuple[str, str]] = []
    links = LinkPusher(lambda key, link: pushed.append((key, link)), lambda text, error: None)
    links.update(POINTER)
    first = replace(POINTER, spark_ui=UI)
    for pointer in (first, replace(first, checkpoint=3), replace(first, spark_ui="http://driver:4041")):
        links.update(pointer)
    assert pushed == [(KEY, UI), (KEY, "http://driver:4041")]


def test_a_failed_push_of_a_link_is_only_a_warning() -> None:
    warned: list[str] = []

    def push(key: str, link: str) -> None:
        raise ConnectionError("the API server does not answer")

    LinkPusher(push, lambda text, error: warned.append(f"{error}")).update(replace(POINTER, spark_ui=UI))
    assert warned == ["the API server does not answer"]
