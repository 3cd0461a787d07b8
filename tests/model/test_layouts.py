"""Folders of a result partition, as consumers are added and removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex, layout_of
from airflow_provider_ckpt.model.json_form import from_json, to_json

GOLDEN = Path(__file__).parents[1] / "golden" / "execution-graph-v1-consumers.json"


def graph(consumers: str) -> JobGraph:
    """Return the graph of producer p, with one consumer for each letter."""
    vertices = [JobVertex(uid, (uid,), (uid,), (), (), False) for uid in ("p", *consumers)]
    return JobGraph(tuple(vertices), tuple(JobEdge(f"p__{uid}", "p", uid, uid) for uid in consumers))


def laid_out(*versions: str) -> JobGraph:
    """Return the graph after a series of versions, each of which lists its consumers."""
    current = graph(versions[0])
    for consumers in versions[1:]:
        current = graph(consumers).with_layouts_after(current)
    return current


@pytest.mark.parametrize(
    ("versions", "data", "feeds"),
    [
        (["ba"], "p__a/p__b/data", {"b": "p__a/p__b", "a": "p__a"}),
        (["", "ba"], "p__a/p__b/data", {"b": "p__a/p__b", "a": "p__a"}),
        (["b", "ab"], "layout-1/data", {"b": "p__b", "a": "layout-1/p__a"}),
        (["ac", "c"], "layout-1/data", {"c": "p__a/p__c"}),
        (["ac", "c", "bc"], "layout-2/data", {"c": "p__a/p__c", "b": "layout-2/p__b"}),
        (["b", "ab", "ab", "abc"], "layout-2/data", {"b": "p__b", "a": "layout-1/p__a", "c": "layout-2/p__c"}),
        (["ab", "b", "ab"], "layout-2/data", {"b": "p__a/p__b", "a": "layout-2/p__a"}),
        (["a", "", "", "a"], "layout-2/data", {"a": "layout-2/p__a"}),
        (["a", "b", "a", "b", "a"], "layout-4/data", {"a": "layout-4/p__a"}),
    ],
)
def test_r7_an_edge_keeps_its_folder_when_other_edges_change(
    versions: list[str], data: str, feeds: dict[str, str]
) -> None:
    job_graph = laid_out(*versions)
    assert job_graph.data_folder("p") == data
    assert {edge.consumer: job_graph.edge_folder(edge) for edge in job_graph.outputs("p")} == feeds


def test_folder_paths_do_not_grow_with_removed_consumers() -> None:
    versions = ["a", *("ab", "b", "bc", "c", "ca") * 30]
    job_graph = laid_out(*versions)
    assert max(len(job_graph.edge_folder(edge)) for edge in job_graph.edges) <= len("layout-100/p__a")


def test_r7_the_path_of_an_edge_names_its_layout() -> None:
    assert [layout_of(path) for path in ("data/x", "p__a/data/x", "layout-3/p__a", "layout-12/data/x")] == [0, 0, 3, 12]
    assert [layout_of(path) for path in ("layout-2__x", "layout-/y", "layout-x", "", "my-layout-3/y")] == [0] * 5


def test_planning_the_same_job_again_gives_the_same_layout() -> None:
    """Workers and retries plan the same job again."""
    for before, after in (("b", "ab"), ("b", "bd"), ("ab", "b"), ("", "a"), ("a", "a"), ("a", "")):
        changed = laid_out(before, after)
        assert graph(after).with_layouts_after(changed) == changed


def test_an_unchanged_job_writes_no_layout() -> None:
    again = laid_out("ab", "ab")
    written = to_json(again)
    assert "layout" not in written["vertices"][0]
    assert "folder" not in written["edges"][0]
    assert from_json(JobGraph, written) == graph("ab")


def test_the_golden_graph_with_layouts_is_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text())["graph"]
    assert golden["vertices"][0]["layout"] == 1
    assert [edge["folder"] for edge in golden["edges"]] == ["layout-1/p__a", "p__b"]
    assert to_json(laid_out("b", "ab")) == golden
    assert from_json(JobGraph, golden) == laid_out("b", "ab")


def test_a_new_vertex_gets_the_first_layout() -> None:
    other = JobGraph((JobVertex("q", ("q",), ("q",), (), (), False),), ())
    assert graph("ba").with_layouts_after(other) == graph("ba")
