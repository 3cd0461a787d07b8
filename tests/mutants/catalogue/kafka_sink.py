"""Releases to Kafka (R9, R16). Their tests need a broker. ``make kafka`` reports whether there is one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_RELEASE = "tests/kafka/test_release.py"

KAFKA_SINK = (
    Mutant(
        "ledger-read-before-it-is-settled",
        "R9",
        "BoundKafkaSink._settle",
        "    if self._transactions is None:\n",
        "    self._catch_up(since, ledgers)\n    if self._transactions is None:\n",
        (f"{_RELEASE}::test_r9_a_commit_concurrent_with_reading_the_ledger_is_not_repeated",),
        "the previous transaction commits after the ledger was read, and its rows come twice",
    ),
    Mutant(
        "released-handles-are-not-skipped",
        "R9",
        "BoundKafkaSink._release.waiting",
        'waiting = list({handle["id"]: handle for handle in staged if handle["id"] not in released}.values())',
        'waiting = list({handle["id"]: handle for handle in staged}.values())',
        (f"{_RELEASE}::test_r9_a_batch_released_by_an_earlier_checkpoint_is_not_written_again",),
        "a release that covers several checkpoints repeats rows, or is refused for ever",
    ),
    Mutant(
        "lost-reply-is-believed",
        "R9",
        "BoundKafkaSink.release",
        "        except BaseException:\n            self._discard_producer()\n            raise",
        "        except BaseException:\n            raise",
        (f"{_RELEASE}::test_r9_a_lost_reply_to_a_commit_repeats_nothing",),
        "the process's copy of the ledger differs from the outcome of the transaction",
    ),
    Mutant(
        "ledger-made-again-is-an-empty-one",
        "R9",
        "Ledger.since",
        "    if any(ledger_id != facts.id for ledger_id in ledger_ids):",
        "    if False:",
        (f"{_RELEASE}::test_a_deleted_ledger_is_not_taken_for_an_empty_one",),
        "all released rows are released again",
    ),
    Mutant(
        "ledger-of-one-handle-is-that-of-all",
        "R9",
        "Ledger.since",
        "    if any(ledger_id != facts.id for ledger_id in ledger_ids):",
        "    if all(ledger_id != facts.id for ledger_id in ledger_ids):",
        (f"{_RELEASE}::test_a_recreated_ledger_refuses_batches_that_were_staged_before",),
        "a batch that the earlier ledger records as released is released again",
    ),
)
