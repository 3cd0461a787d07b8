"""The chaining of operators into Spark queries: from a job to a job graph (docs/concepts.md).

An edge u -> v is chained, so that both run in one vertex, under four rules:

1. u and v are both bounded, or both unbounded.
2. v is the only consumer of u. A sink counts as a consumer. A Spark query has one output, so an operator with
   several consumers must be the output of its vertex.
3. Neither u nor v has chain=False, which makes an operator a vertex of its own, like Flink's disableChaining.
4. The queries of u and v do not mix output modes "update" and "complete". The mode of a query is "append" unless
   one of its operators has another mode.

A source with splits is a vertex of its own. An operator with persist=True is the output operator of its vertex.

A bounded vertex joins its unbounded consumer's vertex (*inline*), in spite of rule 1, under three conditions: it reads
no edge, all of its sources are ``inline``, and rules 2 to 4 hold for its edge.

Sinks belong to the vertex of their input. By rule 2 every vertex is a tree whose root is its output operator. Sinks and
consumers read only that operator, so the graph of the vertices has no circle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options.suggestions import listed
from airflow_provider_ckpt.job.topology import Operators, boundedness, consumers, topological_order
from airflow_provider_ckpt.job.validation import check_job, edge_uid
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex


def build_graph(
    job: Job,
    *,
    inline: Callable[[str], bool] = lambda uid: False,
    parallelism: Mapping[str, int] | None = None,
) -> JobGraph:
    """Return the job graph of ``job``, in linear time. The same definition always gives the same graph.

    Args:
        inline: Returns True if the bounded source with this uid may be inline. It may be if a frozen file list shows
            its end, and if the transforms in its :func:`bounded_chain` keep no state. The query omits these transforms
            after the source has finished.
        parallelism: Vertex uid -> number of subtasks. By default a source with splits has its declared number, and any
            other vertex has 1.

    Raises InvalidJobError if ``parallelism`` names no vertex, or if the job's operators are invalid.
    """
    check_job(job.name, job.operators)
    chaining = _Chaining(job.operators)
    chaining.chain()
    chaining.chain_inline(inline)
    return chaining.graph(parallelism or {})


def bounded_chain(job: Job, source: str) -> tuple[str, ...]:
    """Return the uids of the bounded transforms that process rows of ``source`` one after the other, in order.

    The chain ends before the first operator that is unbounded, a sink, or not the only consumer of its input.
    """
    readers, bounded = consumers(job.operators), boundedness(job.operators)
    chain = [source]
    while len(readers[chain[-1]]) == 1:
        consumer = readers[chain[-1]][0]
        if not bounded[consumer] or job.operators[consumer].kind == "sink":
            break
        chain.append(consumer)
    return tuple(chain[1:])


class _Chaining:
    """The chains of a job's operators. ``_next[u]`` is the operator to which u is chained."""

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self._order = [uid for uid in topological_order(operators) if operators[uid].kind != "sink"]
        self._consumers = consumers(operators)
        self._bounded = boundedness(operators)
        self._next: dict[str, str] = {}
        self._output = {uid: uid for uid in self._order}
        self._modes: dict[str, str] = {uid: operators[uid].output_mode for uid in self._order}

    def chain(self) -> None:
        """Chain operators under rules 1 to 4, consumers first, because an operator joins its consumer's vertex."""
        for uid in reversed(self._order):
            consumer = self._chain_target(uid)
            if consumer is not None and self._bounded[uid] == self._bounded[consumer]:
                self._join(uid, consumer)

    def chain_inline(self, inline: Callable[[str], bool]) -> None:
        """Chain each bounded vertex to its unbounded consumer, if all sources of the vertex are inline.

        Sources come first.
        """
        can_be_inline: dict[str, bool] = {}
        for uid in self._order:
            operator = self._operators[uid]
            if not self._bounded[uid]:
                continue
            if operator.kind == "source":
                can_be_inline[uid] = inline(uid)
            else:
                can_be_inline[uid] = all(can_be_inline[i] and self._next.get(i) == uid for i in operator.input_uids)
            consumer = self._chain_target(uid)
            if can_be_inline[uid] and consumer is not None and not self._bounded[consumer]:
                self._join(uid, consumer)

    def _join(self, uid: str, consumer: str) -> None:
        """Chain ``uid``, the output operator of its vertex, to ``consumer``. Do nothing if rule 4 forbids it."""
        output = self._output[consumer]
        modes = {self._modes[uid], self._modes[output]} - {"append"}
        if len(modes) < 2:
            self._next[uid] = consumer
            self._output[uid] = output
            self._modes[output] = modes.pop() if modes else "append"

    def _chain_target(self, uid: str) -> str | None:
        """Return the consumer to which ``uid`` may be chained under rules 2 and 3, or None."""
        if len(self._consumers[uid]) != 1:
            return None
        upstream, consumer = self._operators[uid], self._operators[self._consumers[uid][0]]
        if upstream.splits is not None:
            return None  # because each of its splits is a batch job of its own
        if upstream.persist:
            return None  # because only the output of a vertex is written to a partition
        if consumer.kind == "sink" or not (upstream.chain and consumer.chain):
            return None
        return consumer.uid

    def graph(self, parallelism: Mapping[str, int]) -> JobGraph:
        members = self._members()
        unknown = [uid for uid in parallelism if uid not in members]
        if unknown:
            raise InvalidJobError(
                "parallelism is given for {vertex!r}, which is the output operator of no vertex. Vertices: {known}.",
                vertex=unknown[0],
                known=listed(members),
            )
        declared = {uid: splits.parallelism for uid in members if (splits := self._operators[uid].splits) is not None}
        width = {**declared, **parallelism}
        vertices = tuple(self._vertex(output, uids, width.get(output, 1)) for output, uids in members.items())
        edges = tuple(edge for output, uids in members.items() for edge in self._edges(output, uids))
        return JobGraph(vertices, edges)

    def _members(self) -> dict[str, tuple[str, ...]]:
        """Return output operator of a vertex -> the vertex's operators, all in topological order."""
        output: dict[str, str] = {}
        for uid in reversed(self._order):
            output[uid] = output[self._next[uid]] if uid in self._next else uid
        members: dict[str, list[str]] = {uid: [] for uid in self._order if uid not in self._next}
        for uid in self._order:
            members[output[uid]].append(uid)
        return {uid: tuple(uids) for uid, uids in members.items()}

    def _vertex(self, output: str, uids: tuple[str, ...], parallelism: int) -> JobVertex:
        sources = tuple(uid for uid in uids if self._operators[uid].kind == "source")
        return JobVertex(
            uid=output,
            operators=uids,
            sources=sources,
            bounded_sources=tuple(uid for uid in sources if self._bounded[uid]),
            sinks=(
                *(uid for uid in self._consumers[output] if self._operators[uid].kind == "sink"),
                *(
                    uid
                    for uid, operator in self._operators.items()
                    if operator.quarantine and operator.input_uids[0] in sources
                ),
            ),
            bounded=self._bounded[output],
            parallelism=parallelism,
            splits=self._operators[output].splits is not None,
            persist=self._operators[output].persist,
        )

    def _edges(self, output: str, uids: tuple[str, ...]) -> list[JobEdge]:
        return [
            JobEdge(edge_uid(producer, uid), producer=producer, consumer=output, operator=uid)
            for uid in uids
            for producer in self._operators[uid].input_uids
            if self._next.get(producer) != uid
        ]
