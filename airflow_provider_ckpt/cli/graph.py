"""``ckpt graph``, which prints the graph of a job as text or for Mermaid."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.arguments import job_client
from airflow_provider_ckpt.cli.overview_page import graph_lines
from airflow_provider_ckpt.printable import one_line
from airflow_provider_ckpt.status.job_overview import JobOverview


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("graph", help="print the graph of a job")
    arguments.add_job(parser)
    parser.add_argument("--mermaid", action="store_true", help="print a Mermaid flowchart")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    overview = job_client(args).overview()
    for line in mermaid(overview) if args.mermaid else graph_lines(overview):
        print(line)
    return 0


def mermaid(overview: JobOverview) -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart: sources, queries and sinks with their arrows."""
    yield "flowchart LR"
    ids = {uid: f"n{number}" for number, uid in enumerate(_nodes(overview))}
    sources, sinks = {source.uid for source in overview.sources}, {sink.uid for sink in overview.sinks}
    for uid, node in ids.items():
        name = one_line(uid).replace('"', "#quot;")
        yield (
            f'  {node}[("{name}")]'
            if uid in sinks
            else f'  {node}(["{name}"])'
            if uid in sources
            else f'  {node}["{name}"]'
        )
    for vertex in overview.vertices:
        reads = [uid for uid in vertex.operators if uid in sources and uid != vertex.uid]
        for uid in (*reads, *vertex.inputs):
            yield f"  {ids[uid]} --> {ids[vertex.uid]}"
        for uid in vertex.sinks:
            yield f"  {ids[vertex.uid]} --> {ids[uid]}"


def _nodes(overview: JobOverview) -> list[str]:
    sources = [source.uid for source in overview.sources]
    return list(dict.fromkeys([*sources, *(v.uid for v in overview.vertices), *(s.uid for s in overview.sinks)]))
