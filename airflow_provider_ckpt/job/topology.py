"""Order, consumers and boundedness of a job's operators. All functions take linear time.

``Operators`` is uid -> operator in order of definition, with every input among the keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.operators import Operator

Operators = Mapping[str, Operator]


def topological_order(operators: Operators) -> tuple[str, ...]:
    """Return the uids with every input before its consumers.

    The order is that of definition, except that an operator follows its inputs if it refers to a later operator.

    Raises InvalidJobError if operators feed each other in a circle.
    """
    done: dict[str, None] = {}
    for uid in operators:
        _visit(uid, operators, done)
    return tuple(done)


def _visit(root: str, operators: Operators, done: dict[str, None]) -> None:
    """Add ``root`` to ``done`` after all of its inputs. Not recursive, because Python limits the depth of recursion."""
    if root in done:
        return
    path = {root: iter(operators[root].input_uids)}
    while path:
        uid = next(reversed(path))
        upstream = next(path[uid], None)
        if upstream is None:
            path.popitem()
            done[uid] = None
        elif upstream in path:
            raise _cycle(tuple(path), upstream, operators)
        elif upstream not in done:
            path[upstream] = iter(operators[upstream].input_uids)


def _cycle(path: tuple[str, ...], start: str, operators: Operators) -> InvalidJobError:
    # The path goes against the data, but a user expects "a -> b" to mean that a feeds b.
    circle = (start, *reversed(path[path.index(start) :]))
    return InvalidJobError(
        "the operators {cycle} feed each other in a circle ({location}). Remove one of these inputs.",
        cycle=" -> ".join(circle),
        location=operators[start].location,
    )


def consumers(operators: Operators) -> dict[str, tuple[str, ...]]:
    """Return uid -> uids of the operators that read the operator's output, in order of definition.

    Quarantine sinks are left out.
    """
    readers: dict[str, list[str]] = {uid: [] for uid in operators}
    for operator in operators.values():
        for uid in () if operator.quarantine else operator.input_uids:
            readers[uid].append(operator.uid)
    return {uid: tuple(uids) for uid, uids in readers.items()}


def boundedness(operators: Operators) -> dict[str, bool]:
    """Return uid -> True if the operator is bounded. A source declares it.

    Any other operator is bounded if all of its inputs are bounded.
    """
    bounded: dict[str, bool] = {}
    for uid in topological_order(operators):
        operator = operators[uid]
        inputs = operator.input_uids
        bounded[uid] = operator.bounded if operator.kind == "source" else all(bounded[i] for i in inputs)
    return bounded
