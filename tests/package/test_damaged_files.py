"""Damaged durable files: a field is missing or has a value of another type.

An error of this package refuses such a file and names it. The tests damage every field of every golden file in turn,
and of the kinds of files without a golden file.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import read_frozen_splits
from airflow_provider_ckpt.journal.event_codec import decode, decode_all
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.journal.state_json import state_from_json
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.job_request import InvalidRequest
from airflow_provider_ckpt.model.json_form import from_json
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.manifest_log import ManifestLog
from airflow_provider_ckpt.sinks.file.ownership_log import OwnershipLog
from airflow_provider_ckpt.sinks.file.staged_files import StagedFiles
from airflow_provider_ckpt.sinks.kafka.ledger import LedgerRecord
from airflow_provider_ckpt.sinks.kafka.staging import KafkaStaging
from airflow_provider_ckpt.sinks.lake.intents import IntentLog
from airflow_provider_ckpt.sinks.lake.lake_handle import LakeHandle
from airflow_provider_ckpt.sinks.lake.table_commits import StartMark
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.spark.query.sources.frozen_end import read_offsets
from airflow_provider_ckpt.spark.query.sources.frozen_files import freeze, read_frozen
from airflow_provider_ckpt.sparkfiles.edge_feed import EdgeFeed
from airflow_provider_ckpt.status.job_overview import read_overview
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.log.append_log import AppendLog
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import read_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.subtasklog.record_codec import record_from_json
from airflow_provider_ckpt.subtasklog.records import PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.support.checksum import without_checksum

GOLDEN = Path(__file__).parent.parent / "golden"
Read = Callable[[Storage, str], None]
"""Function that reads a file of a storage as the package does, and raises an error of the package if it is damaged."""


def json_of(storage: Storage, name: str) -> Any:
    return json.loads(storage.read(name))


def journal(storage: Storage, name: str) -> None:
    """Read the journal up to the damage, which names the entry."""
    for damage in Journal(storage, "orders").replay().damage:
        assert name in damage
        raise DamagedError(damage)


class DamagedError(CkptError):
    def __init__(self, problem: str) -> None:
        super().__init__(message=problem)


def request(storage: Storage, name: str) -> None:
    """Read the request. The driver answers it with its problem."""
    [pending] = pending_requests(storage, "orders", 7, ())
    if isinstance(pending, InvalidRequest):
        raise DamagedError(pending.problem)


def handle(storage: Storage, name: str) -> None:
    context = SinkContext("orders", "lake", {})
    StagedFiles(FileFolders.open(Location("memory://golden/daily revenue")), context).read_handle(
        json_of(storage, name)
    )


def kafka_handle(storage: Storage, name: str) -> None:
    context = SinkContext("orders", "lake")
    KafkaStaging(open_storage("memory://staging"), context, "results").read_handle(json_of(storage, name))


def manifests(storage: Storage, name: str) -> None:
    ManifestLog(storage, "orders", "lake").read()


def lake_handle(storage: Storage, name: str) -> None:
    not_none(LakeHandle.read(json_of(storage, name), SinkContext("orders", "lake", {}), "file:///lake/orders"))


def intents(storage: Storage, name: str) -> None:
    log = IntentLog(storage, "orders", "lake")
    not_none([log.entry(number) for number in range(log.catch_up())])


def turns(storage: Storage, name: str) -> None:
    OwnershipLog(storage).catch_up()


def journal_entries(storage: Storage, _: str) -> None:
    """Read the journal's entries, including the claims below the head, which are not part of the state."""
    assert AppendLog(storage, "orders/journal", format="journal", parse=decode_all).load()


def append_log(storage: Storage, name: str) -> None:
    AppendLog(storage, "", format="test").load()


def feed(storage: Storage, name: str) -> None:
    EdgeFeed(storage, "p/e", "p", attempt=AttemptId(2, 0, "x"))


def prepared(storage: Storage, name: str) -> None:
    PreparedStore(storage, "prepared").read(AttemptId(1, 0, "a"))


SINK = "orders/lake/manifests/00000000.json"
READERS: list[tuple[str, str, Read]] = [
    ("root-v1/ckpt-root.json", "ckpt-root.json", lambda storage, name: not_none(read_root(storage))),
    ("append-log-v1/00000003.json", "00000003.json", append_log),
    ("append-log-v1/00000000.json", "00000000.json", append_log),
    ("append-log-v1/00000004.json", "00000004.json", append_log),
    ("append-log-v1/head-00000003.json", "head-00000003.json", append_log),
    *[(f"append-log-v1-keeps-more/{name}.json", f"{name}.json", append_log)
      for name in ("00000000", "00000001", "00000003", "00000004", "head-00000003")],
    *[(f"subtask-log-v1/{n:08d}.json", f"log/{n:08d}.json", lambda s, _: not_none(SubtaskLog(s, "log").load()))
      for n in range(7)],
    *[(f"journal-v1/orders/journal/{n:08d}.json", f"orders/journal/{n:08d}.json", journal) for n in (2, 3, 4, 5)],
    ("journal-v1/orders/journal/00000000.json", "orders/journal/00000000.json", journal_entries),
    ("journal-v1/orders/journal/head-00000002.json", "orders/journal/head-00000002.json", journal),
    ("job-state-v1/state.json", "state.json", lambda storage, name: not_none(state_from_json(json_of(storage, name)))),
    ("job-state-v1/state-with-outcomes.json", "state.json", lambda s, n: not_none(state_from_json(json_of(s, n)))),
    ("splits-v1/events.json", "events.json", lambda s, name: not_none(list(map(decode, json_of(s, name))))),
    ("splits-v1/batch.json", "batch.json", lambda s, name: not_none(record_from_json(json_of(s, name)))),
    ("splits-v1/batch-of-several.json", "b.json", lambda s, name: not_none(record_from_json(json_of(s, name)))),
    ("splits-v1/frozen.json", "frozen.json", lambda s, name: not_none(read_frozen_splits(s, name))),
    ("sinks-v1/file-handle.json", "handle.json", handle),
    ("kafka-sink-v1/handle.json", "handle.json", kafka_handle),
    ("kafka-sink-v1/ledger-record.json", "ledger.json", lambda s, n: not_none(LedgerRecord.decoded(s.read(n), n))),
    ("sinks-v1/manifest-00000000.json", SINK, manifests),
    ("sinks-v1/manifest-that-supersedes.json", SINK, manifests),
    *[(f"sinks-v1/turn-{n:08d}.json", f"~owners/{n:08d}.json", turns) for n in range(3)],
    ("lakes-v1/lake-handle.json", "handle.json", lake_handle),
    ("lakes-v1/intent-00000000.json", "_ckpt/orders/lake/intents/00000000.json", intents),
    ("lakes-v1/intent-upsert.json", "_ckpt/orders/lake/intents/00000000.json", intents),
    ("lakes-v1/start.json", "_ckpt/orders/lake/start.json",
     lambda s, _: not_none(StartMark(s, "orders", "lake").read())),
    ("request-v1/request.json", "orders/requests/r.json", request),
    ("request-v1/leaving.json", "orders/requests/r.json", request),
    ("request-v1/reconfigure.json", "orders/requests/r.json", request),
    ("request-v1/upgrade.json", "orders/requests/r.json", request),
    ("reconfiguration-v1.json", "events.json", lambda s, name: not_none(list(map(decode, json_of(s, name))))),
    ("upgrade-v1.json", "events.json", lambda s, name: not_none(list(map(decode, json_of(s, name))))),
    ("late-and-asked-v1.json", "events.json", lambda s, name: not_none(list(map(decode, json_of(s, name))))),
    ("sink-releases-v1.json", "events.json", lambda s, name: not_none(list(map(decode, json_of(s, name))))),
    ("rescaling-v1.json", "events.json", lambda s, name: not_none(list(map(decode, json_of(s, name))))),
    ("rescaling-v1-workers.json", "events.json", lambda s, name: not_none(list(map(decode, json_of(s, name))))),
    ("run-options-v1.json", "options.json", lambda s, name: not_none(RunOptions.from_json(json_of(s, name)))),
    ("job-overview-v1.json", "orders/overview/current.json", lambda s, name: not_none(read_overview(s, "orders"))),
    ("job-definition-v1.json", "plan.json", lambda s, name: not_none(from_json(JobDefinition, json_of(s, name)))),
    ("execution-graph-v1.json", "g.json", lambda s, name: not_none(from_json(JobGraph, json_of(s, name)))),
    ("execution-graph-v1-consumers.json", "g.json", lambda s, name: not_none(from_json(JobGraph, json_of(s, name)))),
    ("feed-entry-v1/9.compact", "p/e/feeds/0001/_spark_metadata/9.compact", feed),
    ("prepared", "prepared/0001-a.json", prepared),
    ("frozen-offsets-v1.json", "frozen.json", lambda storage, name: not_none(read_offsets(storage, name))),
    ("frozen-files", "frozen.json", lambda storage, name: not_none(read_frozen(storage, name))),
]  # fmt: skip


def not_none(value: object) -> None:
    assert value is not None


FREE = re.compile(
    r"body\.(path|rows)|body|writer|head|"  # of logs: fields without a reader, and the body in logs of tests
    r"(body\.)?release|"
    r"(sinks\.\w+\.target|.*unions\.\d+\.(schema|inputs\.\w+)|.*handles\.\w+|.*splits\.\d+\.value)(\..*)?|"
    r".*releases\.\d+\.sinks\..*|.*events\.\d+\.sinks\..*|.*created\.options\..*|.*events\.\d+\.options\..*|"
    r"(body\.)?columns\.\d+\.type(\..*)?|"
    r"leaves|uid|number|"
    r"action|isDir|blockSize|blockReplication"
)
"""Fields that may have any JSON value, or that are never read."""
PARTS = re.compile(
    "job-state|late-and-asked|splits-v1/(events|batch|batch-of-several)|rescaling|reconfiguration|upgrade|sink-releases|run-options|job-definition|execution-graph|file-handle|lake-handle|kafka-sink-v1/handle|root|request-"
)
"""Parts of a file whose reader names the file in its error. A root and a request are named without the file."""


@pytest.mark.parametrize(("golden", "name", "read"), READERS, ids=[golden for golden, _, _ in READERS])
def test_a_missing_or_wrong_field_is_refused_by_an_error_of_the_package(
    tmp_path: Path, golden: str, name: str, read: Read
) -> None:
    storage = open_storage(f"memory://{tmp_path}")
    for other, place, _ in READERS:  # the other entries of a log
        if other.rpartition("/")[0] == golden.rpartition("/")[0] != "":
            storage.replace(place, content(other))
    whole = content(golden)
    storage.replace(name, whole)
    read(storage, name)
    refusals, accepted = [], []
    for how, where, damaged in damages(whole):
        storage.replace(name, damaged)
        try:
            read(storage, name)
        except CkptError as error:
            refusals.append((where, str(error)))
        else:  # a field may be missing if it was added later, or is a key of a map
            accepted += [where] if how == "other" and not FREE.fullmatch(where) else []
    assert accepted == []
    assert refusals
    is_numbered = name.startswith(("_ckpt/", "~owners/", "orders/lake/")) and Path(name).stem.isdigit()
    entry = f"entry {int(Path(name).stem)} " if is_numbered else name
    assert PARTS.search(golden) or [where for where, error in refusals if entry not in error] == []


def content(golden: str) -> bytes:
    """Return the content of a golden file, or of a newly written file if the kind has none."""
    storage = open_storage("memory://newly-written")
    if golden == "prepared":
        files = (PartitionFile("a", 1),)
        PreparedStore(storage, "prepared").write(Prepared(AttemptId(1, 0, "a"), 3, files, {"lake": {"rows": 1}}))
        return without_checksum(storage.read("prepared/0001-a.json"))
    if golden == "frozen-files":
        freeze(storage, "frozen.json", "history", ["file:///a", "file:///b"])
        return without_checksum(storage.read("frozen.json"))
    data = (GOLDEN / golden).read_bytes()
    if golden.startswith("execution-graph"):  # as it is in an event
        return json.dumps(json.loads(data)["graph"]).encode()
    return data


def damages(whole: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Yield (without or other, field, damaged file) for each damage; for a file of lines, in each of its lines."""
    try:
        documents, lines = [json.loads(whole)], None
    except ValueError:
        lines = whole.decode().splitlines()
        documents = [json.loads(line) for line in lines[1:]]
    for number, document in enumerate(documents):
        if lines is not None and document["isDir"]:
            continue  # the number of following lines: see tests/spark/test_feed_entry.py
        for path in paths(document):
            for how, changed in (("without", dropped(document, path)), ("other", replaced(document, path))):
                if changed is not None:
                    text = json.dumps(changed)
                    if lines is not None:
                        text = "\n".join([*lines[: number + 1], text, *lines[number + 2 :]])
                    yield how, ".".join(map(str, path)), text.encode()


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*above, key)
        yield from paths(item, (*above, key))


def dropped(document: Any, path: tuple[Any, ...]) -> Any:
    if isinstance(path[-1], int):
        return None
    changed = copy.deepcopy(document)
    inner(changed, path).pop(path[-1])
    return changed


def replaced(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    holder = inner(changed, path)
    holder[path[-1]] = "text" if isinstance(holder[path[-1]], dict | list) else [{}]
    return changed


def inner(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        document = document[key]
    return document
