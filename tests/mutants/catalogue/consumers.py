"""Consumers that a running query gains and loses (R7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_COME = "tests/spark/test_consumers_that_come.py::"

CONSUMERS = (
    Mutant(
        "edge-shows-earlier-entries",
        "R7",
        "EdgeLog._without_old_files",
        "    return replace(record, files=())",
        "    return record",
        ("tests/subtasklog/test_edge_log.py",),
        "a new consumer reads whatever part of the partition happens to be left",
    ),
    Mutant(
        "folders-of-edges-made-again",
        "R7",
        "JobGraph._folder_after",
        "    return before.edge_folder(stays[0]) if stays else",
        '    return "" if stays else',
        ("tests/model/test_layouts.py",),
        "an existing edge is looked for in the folder of a new edge",
    ),
    Mutant(
        "gone-consumers-hold-files",
        "R7",
        "Retention._discard",
        "data_head(consumers) or self._dropped_consumers_head(subtask, retained[0])",
        "data_head(consumers)",
        (f"{_COME}test_r7_partition_data_of_removed_readers_is_deleted",),
        "the files for a removed consumer stay as long as the job runs",
    ),
    Mutant(
        "unread-input-lost",
        "R6",
        "_check_edges",
        "        if lost_consumers:\n",
        "        if False:\n",
        (f"{_COME}test_a_reader_with_another_input_is_refused",),
        "data published for a query is never read because the query new_edges reads another input",
    ),
    Mutant(
        "producer-returns-to-a-consumer-that-remembers-it",
        "R6",
        "_check_returned",
        "        if edge.producer in state.abandoned and edge.producer not in vertices and edge.consumer in vertices:",
        "        if False:",
        (f"{_COME}test_a_dropped_operator_may_not_return_as_input_of_a_running_query",),
        "a reader plans deleted files of a query that was dropped and added again, and the job fails for good",
    ),
)
