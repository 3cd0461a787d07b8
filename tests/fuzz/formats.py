"""Kinds of files that a job writes or gets. Each has an undamaged sample and the code that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.cli.job_json import job_view
from airflow_provider_ckpt.cli.show import summary
from airflow_provider_ckpt.connections.connection import parse_connection
from airflow_provider_ckpt.hooks.connection_settings import location_of
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.job.options.storage_options import STORAGE_OPTIONS_VARIABLE, read_storage_options
from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import read_frozen_splits
from airflow_provider_ckpt.journal.journal import Journal, list_jobs
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.operators.pointer import Pointer
from airflow_provider_ckpt.operators.retry_policy import Failures
from airflow_provider_ckpt.remote.mailbox import read_outbox
from airflow_provider_ckpt.sinks.database.bound_database_sink import checked_handle
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.folder_columns import ColumnRecord
from airflow_provider_ckpt.sinks.file.manifest_log import ManifestLog
from airflow_provider_ckpt.sinks.file.ownership_log import OwnershipLog
from airflow_provider_ckpt.sinks.file.staged_files import StagedFiles
from airflow_provider_ckpt.sinks.kafka.ledger import LedgerRecord
from airflow_provider_ckpt.sinks.kafka.staging import KafkaStaging
from airflow_provider_ckpt.sinks.lake.intents import IntentLog
from airflow_provider_ckpt.sinks.lake.lake_handle import LakeHandle
from airflow_provider_ckpt.sinks.lake.table_commits import StartMark
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.spark.query.sources.frozen_end import read_end
from airflow_provider_ckpt.spark.query.sources.known_late import KnownLate
from airflow_provider_ckpt.sparkfiles.edge_feed import EdgeFeed
from airflow_provider_ckpt.sparkfiles.past_files import PastFiles
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles, planned_times, rewind_log, taken_after
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.sparkfiles.state_check import StateCheck
from airflow_provider_ckpt.status.job_overview import read_overview
from airflow_provider_ckpt.storage.errors import MalformedDocumentError
from airflow_provider_ckpt.storage.layout import late_path
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.log.append_log import AppendLog
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import read_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.storage.strict_json import parse_json
from airflow_provider_ckpt.subtasklog.log_state import fold
from airflow_provider_ckpt.subtasklog.prepared_store import PreparedStore
from airflow_provider_ckpt.subtasklog.record_codec import numbered, subtask_entries
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.task.bounded_offsets import BoundedOffsets
from tests.package.test_damaged_files import DamagedError, content
from tests.spark.compacted_folder import check_spark_folder, write_folder

GOLDEN = Path(__file__).parent.parent / "golden"
SECRET = "hunter2-and-more"
"""Password in the samples of connections. No error may show it."""
Read = Callable[[Storage, bytes], None]
"""Function that puts the damaged data where they belong, and reads them as the package does."""


@dataclass(frozen=True)
class Format:
    """Kind of file.

    ``named``: texts, any of which each error must contain. ``others``: other files that must exist. ``golden``: the
    golden file with ``data``, if there is one.
    """

    name: str
    data: bytes
    read: Read
    named: tuple[str, ...] = ()
    others: Mapping[str, bytes] = field(default_factory=dict)
    golden: str | None = None


def _file(golden: str, path: str, read: Callable[[Storage], object], named: str | None = None) -> Format:
    """Return the format of a file of its own. The golden files of the same folder are next to it."""
    folder, _, _ = golden.rpartition("/")
    place = path.rpartition("/")[0]
    siblings = [file for file in (GOLDEN / folder).iterdir() if file.is_file()] if folder and _is_log(path) else []
    others = {f"{place}/{file.name}".lstrip("/"): file.read_bytes() for file in siblings}

    def put(storage: Storage, data: bytes) -> None:
        storage.replace(path, data)
        read(storage)

    is_head = "/head-" in path  # it may name the missing entries
    shown = ((f"{place}/" if is_head else path) if named is None else named,)
    return Format(golden, (GOLDEN / golden).read_bytes(), put, shown, others, golden)


def _numbered(base: Format, number: int, others: Mapping[str, bytes] | None = None) -> Format:
    """Return the format of an entry that errors name by its number, or by its file if a later release wrote it."""
    return replace(base, named=(f"entry {number} ", *base.named), others=others or {})


def _is_log(path: str) -> bool:
    return path.removesuffix(".json")[-8:].isdigit()


def _part(golden: str, pack: Callable[[bytes], bytes], path: str, read: Callable[[Storage], object]) -> Format:
    """Return the format of a part of a file: ``pack`` makes the file of it."""

    def put(storage: Storage, data: bytes) -> None:
        storage.replace(path, pack(data))
        read(storage)

    return Format(golden, (GOLDEN / golden).read_bytes(), put, (path,), golden=golden)


# ---- journals


JOURNAL = "orders/journal/00000000.json"


def _entry(events: bytes) -> bytes:
    start = (
        b'{"format": "airflow-provider-ckpt/journal", "version": 1, "number": 0, "writer": "w", "body": {"release": '
    )
    return start + b'"0.1", "events": ' + events + b"}}"


def _journal(storage: Storage) -> None:
    """Read the journal as a driver, `ckpt show` and `ckpt jobs` do. The damage names the entry."""
    state = Journal(storage, "orders").replay()
    json.dumps(job_view(state, None))
    for name, value in summary(state):
        f"{name} {value}".encode(errors="backslashreplace")
    [state.checkpoint_views(), state.split_progress(), state.released_by_sink(), state.valid_snapshots()]
    state.watermarks()
    assert [job.job_id for job in list_jobs(storage)] == ["orders"]
    for damage in state.damage:
        raise DamagedError(damage)


def _entries(storage: Storage) -> None:
    """Read all entries, including the claims below the head."""
    log = Journal(storage, "orders")._log
    AppendLog(storage, "orders/journal", format="journal", parse=log._files._parse).load()
    _journal(storage)


def _of_state(state: bytes) -> bytes:
    return _entry(b'[{"type": "StateSnapshot", "state": ' + state + b', "at": 1.0}]')


_GRAPH = b'{"vertices": [], "edges": []}'


def _of_definition(definition: bytes) -> bytes:
    plan = b'{"type": "PlanRecorded", "graph": ' + _GRAPH + b', "schemas": {}, "at": 1.0, "definition": '
    return _entry(b"[" + plan + definition + b"}]")


def _of_graph(graph: bytes) -> bytes:
    return _entry(
        b'[{"type": "PlanRecorded", "schemas": {}, "at": 1.0, "definition": '
        b'{"mode": "streaming", "sources": {}, "vertices": {}, "sinks": {}}, "graph": ' + graph + b"}]"
    )


def _of_options(options: bytes) -> bytes:
    created = b'{"type": "JobCreated", "job_id": "orders", "mode": "streaming", "at": 1.0, "graph": ' + _GRAPH
    return _entry(b"[" + created + b', "options": ' + options + b"}]")


def _graph(golden: str) -> Format:
    graph = json.dumps(json.loads((GOLDEN / golden).read_bytes())["graph"]).encode()
    return Format(golden, graph, _part(golden, _of_graph, JOURNAL, _journal).read, (JOURNAL,), golden=golden)


def _run_options(storage: Storage, data: bytes) -> None:
    """Read options as a driver reads its own, and as its journal keeps them."""
    RunOptions.from_json(_object(data))


# ---- logs of subtasks


LOG = "log/00000000.json"


def _record(record: bytes) -> bytes:
    start = b'{"format": "airflow-provider-ckpt/subtask-log", "version": 1, "number": 0, "writer": "w", "body": '
    return start + record + b"}"


def _log(storage: Storage) -> None:
    records = numbered(subtask_entries(storage, "log").load())
    fold(records).snapshot_at(len(records))


def _with_handle(handle: bytes) -> bytes:
    return _record(b'{"type": "Batch", "batch_id": 3, "offsets": {}, "handles": {"lake": ' + handle + b"}}")


def _handle(golden: str, check: Callable[[Mapping[str, Any]], object]) -> Format:
    """Return the format of a handle. Its log's error names the entry; the sink's error names the sink."""

    def read(storage: Storage, data: bytes) -> None:
        storage.replace(LOG, _with_handle(data))
        for _, record in numbered(subtask_entries(storage, "log").load()):
            if isinstance(record, Batch) and "lake" in record.handles:
                check(record.handles["lake"])

    return Format(golden, (GOLDEN / golden).read_bytes(), read, golden=golden)


_CONTEXT = SinkContext("orders", "lake", {})


def _checked_by_database(kind: str) -> Callable[[Mapping[str, Any]], object]:
    return lambda handle: checked_handle(handle, f"airflow-provider-ckpt/{kind}", _CONTEXT, "shop.orders")


def _staged_files(handle: Mapping[str, Any]) -> None:
    StagedFiles(FileFolders.open(Location("memory://golden/daily revenue")), _CONTEXT).read_handle(dict(handle))


# ---- sinks


def _manifests(storage: Storage) -> None:
    ManifestLog(storage, "orders", "lake").read()


def _ledger(storage: Storage, data: bytes) -> None:
    LedgerRecord.decoded(data, "kafka://ledger")


def _prepared(storage: Storage, data: bytes) -> None:
    storage.replace("prepared/0001-a.json", data)
    PreparedStore(storage, "prepared").read(AttemptId(1, 0, "a"))


def _frozen_files(storage: Storage, data: bytes) -> None:
    storage.replace("frozen.json", data)
    read_end(storage, "frozen.json")


def _intents(storage: Storage) -> None:
    log = IntentLog(storage, "orders", "lake")
    for number in range(log.catch_up()):
        log.entry(number)


# ---- files of Spark


def _spark_files() -> Iterator[Format]:
    whole = write_folder(open_storage("memory://fuzz-spark"))
    files = {f"v/{name}": whole.read(f"v/{name}") for name, _ in whole.files("v") if not name.endswith(".crc")}
    for name in ("metadata", "offsets/45", "offsets/44", "commits/45", "sources/live/39.compact", "sources/live/45"):
        path = f"v/{name}"
        yield Format(f"spark {name}", files[path], _of_spark(path), ("v/",), files)


def _of_spark(path: str) -> Read:
    """Return a reader of all that the package reads of a Spark folder."""

    def read(storage: Storage, data: bytes) -> None:
        storage.replace(path, data)
        _try(lambda: check_spark_folder(storage, 45, restores=False))
        folder = SparkFolder(storage, "v")
        acts: tuple[Callable[[], object], ...] = (
            lambda: [folder.offsets(number) for number in (44, 45)],
            lambda: [folder.planned_watermark(45), folder.watermark_after(45), folder.state_partitions()],
            lambda: [folder.is_final(), folder.previous_batch(45), folder.is_at_boundary()],
            lambda: [SeenFiles(storage, "v/sources/live").advance(45)],
            lambda: [planned_times(storage, "v/sources/live", 45), taken_after(storage, "v/sources/live", 40)],
            lambda: folder.write_shuffle_partitions(8),
            lambda: [folder.plan_final_batch(45, 1)],
            lambda: PastFiles(30, ("in/",), frozenset()).forget(storage, "v/sources/live"),
            lambda: rewind_log(storage, "v/sources/live", 38),
            lambda: [SparkFolder(storage, "w").copy_from(folder)],
            lambda: folder.rewind(44, ["live"]),
        )
        for act in acts:
            _try(act)
        _raise_first()

    return read


_refused: list[Exception] = []


def _try(act: Callable[[], object]) -> None:
    """Continue after an error of the package. :func:`_raise_first` raises the first one."""
    from airflow_provider_ckpt.errors import CkptError

    try:
        act()
    except CkptError as error:
        _refused.append(error)


def _raise_first() -> None:
    if _refused:
        first = _refused[0]
        _refused.clear()
        raise first


def _offset(storage: Storage, data: bytes) -> None:
    BoundedOffsets("live", {("topic", 0): 7}).read(data.decode(errors="replace"))


def _state(storage: Storage, data: bytes) -> None:
    storage.replace("v/state/0/_metadata/v2/0", data)
    storage.replace("v/state/0/_stateSchema/default/0_a", b"schema")
    storage.replace("v/state/0/0/46_a.changelog", b"x")
    StateCheck(storage, "v").run(45, '{"stateUniqueIds": {"0": [["a"]]}}')


def _commit(storage: Storage, data: bytes) -> None:
    StateCheck(storage, "v").run(45, data.decode(errors="replace"))


_STATE = b'v2\n{"stateStoreInfo": [{"stateSchemaFilePaths": ["file:/v/state/0/_stateSchema/default/0_a"]}]}'


def _feed(golden: str) -> Format:
    path = "p/e/feeds/0001/_spark_metadata/9.compact"
    read = lambda storage: EdgeFeed(storage, "p/e", "p", attempt=AttemptId(2, 0, "x"))  # noqa: E731
    return _file(golden, path, read)


# ---- values of an Airflow connection, or of the environment


_FIELDS = {"conn_type": "postgres", "host": "db", "port": 5432, "login": "me", "password": SECRET}
_EXTRA = {"sslmode": "require", "n": 3}


def _connection(storage: Storage, data: bytes) -> None:
    connection = parse_connection("shop", data.decode(errors="surrogateescape"))
    connection.secrets()
    [repr(connection), connection.redact("x"), str(connection.port)]


def _storage_options(storage: Storage, data: bytes) -> None:
    options = read_storage_options({STORAGE_OPTIONS_VARIABLE: data.decode(errors="surrogateescape")})
    place = Location("s3://b/x", options)
    [place.secrets(), place.shown_options(), repr(place)]


def _extra(storage: Storage, data: bytes) -> None:
    """Read the extra of a connection of type ``ckpt`` as Airflow hands it over: Python has parsed it."""
    try:
        extra = json.loads(data)
    except (ValueError, RecursionError):
        return
    location_of("shop", None, extra, "s3://b/x").secrets()


def _task_state(storage: Storage, data: bytes) -> None:
    """Read an entry of Airflow's task state store, which users can edit."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    pointer = Pointer.from_json(value)
    if pointer is not None:
        pointer.after_end(value if isinstance(value, dict) else {}).to_json()
    Failures.from_json(value).to_json()


def _object(data: bytes) -> Any:
    options = parse_json(data, uri="options.json", what="options")
    if not isinstance(options, dict):
        raise MalformedDocumentError(uri="options.json", what="options", reason="it is no JSON object")
    return options


def _text(name: str, value: Any, read: Read, *named: str) -> Format:
    return Format(name, value if isinstance(value, bytes) else json.dumps(value).encode(), read, named)


# ---- all


MANIFEST = "orders/lake/manifests/00000000.json"
INTENT = "_ckpt/orders/lake/intents/00000000.json"
REQUEST = "orders/requests/r.json"
_EVENTS = (
    *("splits-v1/events.json", "deletion-v1/events.json", "deployment-v1.json", "job-code-v1.json"),
    *("late-and-asked-v1.json", "recovery-v1.json", "restarts-v1.json", "rescaling-v1.json"),
    *("rescaling-v1-workers.json", "reconfiguration-v1.json", "reconfiguration-v1-composed.json"),
    *("reconfiguration-v1-executors.json", "upgrade-v1.json", "sink-releases-v1.json"),
    *("sink-releases-v1-earlier-rows.json",),
)
_RECORDS = (
    *("splits-v1/batch.json", "splits-v1/batch-of-several.json"),
    *("subtask-log-open-try-v1.json", "subtask-log-open-voids-v1.json"),
)


def _formats() -> Iterator[Format]:
    yield _file("root-v1/ckpt-root.json", "ckpt-root.json", read_root, "")
    for log in ("append-log-v1", "append-log-v1-keeps-more"):
        for file in sorted((GOLDEN / log).iterdir()):
            read = lambda storage: AppendLog(storage, "log", format="test", pack=2).load()  # noqa: E731
            yield _file(f"{log}/{file.name}", f"log/{file.name}", read)
    for number in range(7):
        yield _file(f"subtask-log-v1/{number:08d}.json", f"log/{number:08d}.json", _log)
    for job in ("journal-v1", "deletion-v1"):
        for file in sorted((GOLDEN / job / "orders" / "journal").iterdir()):
            path = f"orders/journal/{file.name}"
            yield _file(f"{job}/{path}", path, _entries if file.name < "00000002" else _journal)
    for golden in _EVENTS:
        yield _part(golden, _entry, JOURNAL, _journal)
    for golden in ("job-state-v1/state.json", "job-state-v1/state-with-outcomes.json", "deletion-v1/state.json"):
        yield _part(golden, _of_state, JOURNAL, _journal)
    yield _part("job-definition-v1.json", _of_definition, JOURNAL, _journal)
    yield _graph("execution-graph-v1.json")
    yield _graph("execution-graph-v1-consumers.json")
    yield _part("run-options-v1.json", _of_options, JOURNAL, _journal)
    yield Format("run-options-v1.json of a driver", (GOLDEN / "run-options-v1.json").read_bytes(), _run_options)
    yield _file("job-overview-v1.json", "orders/overview/current.json", lambda s: read_overview(s, "orders"))
    for golden in _RECORDS:
        yield _part(golden, _record, LOG, _log)
    yield _handle("sinks-v1/file-handle.json", _staged_files)
    yield _handle(
        "kafka-sink-v1/handle.json",
        lambda handle: KafkaStaging(open_storage("memory://staging"), _CONTEXT, "results").read_handle(dict(handle)),
    )
    yield _handle(
        "lakes-v1/lake-handle.json", lambda handle: LakeHandle.read(dict(handle), _CONTEXT, "file:///lake/orders")
    )
    yield _handle("postgres-handle-v1.json", _checked_by_database("postgres-handle"))
    yield _handle("sql-handle-v1.json", _checked_by_database("sql-handle"))
    yield Format(
        "kafka-sink-v1/ledger-record.json",
        (GOLDEN / "kafka-sink-v1/ledger-record.json").read_bytes(),
        _ledger,
        golden="kafka-sink-v1/ledger-record.json",
    )
    for name in ("manifest-00000000", "manifest-that-supersedes"):
        yield _numbered(_file(f"sinks-v1/{name}.json", MANIFEST, _manifests), 0)
    turns = {f"~owners/{n:08d}.json": (GOLDEN / f"sinks-v1/turn-{n:08d}.json").read_bytes() for n in range(3)}
    for number in range(3):
        turn = _file(
            f"sinks-v1/turn-{number:08d}.json", f"~owners/{number:08d}.json", lambda s: OwnershipLog(s).catch_up()
        )
        yield _numbered(turn, number, turns)
    for name in ("intent-00000000", "intent-upsert"):
        yield _numbered(_file(f"lakes-v1/{name}.json", INTENT, _intents), 0)
    mark = "_ckpt/orders/lake/start.json"
    yield _file("lakes-v1/start.json", mark, lambda storage: StartMark(storage, "orders", "lake").read())
    columns = lambda storage: ColumnRecord(storage).read(SinkName("orders", "lake"))  # noqa: E731
    yield _file("sink-columns-v1/columns.json", "orders/lake/columns.json", columns)
    for name in ("request", "leaving", "reconfigure", "upgrade"):
        read_requests = lambda storage: pending_requests(storage, "orders", 7, ())  # noqa: E731
        yield _file(f"request-v1/{name}.json", REQUEST, read_requests, "")
    yield _file("outbox-v1.json", "orders/outbox.json", lambda storage: read_outbox(storage, "orders/outbox.json"))
    yield _file("frozen-offsets-v1.json", "frozen.json", lambda storage: read_end(storage, "frozen.json"))
    yield _file("splits-v1/frozen.json", "frozen.json", lambda storage: read_frozen_splits(storage, "frozen.json"))
    frozen = "orders/frozen/history.json"
    yield _file("late-files-v1.json", late_path(frozen), lambda storage: KnownLate(storage, frozen, "history").read())
    for name in ("0", "9.compact"):
        yield _feed(f"feed-entry-v1/{name}")
    yield Format(
        "prepared",
        content("prepared"),
        _prepared,
        ("prepared/0001-a.json",),
    )
    yield Format(
        "frozen files",
        content("frozen-files"),
        _frozen_files,
        ("frozen.json",),
    )
    yield from _spark_files()
    yield _text("offset of a topic", {"topic": {"0": 5}}, _offset)
    yield _text("state metadata", _STATE, _state, "v/state/")
    yield _text("commit of state", {"stateUniqueIds": {}}, _commit)
    yield _text("connection", {**_FIELDS, "extra": _EXTRA}, _connection, "shop")
    yield _text("connection with extra as text", {**_FIELDS, "extra": json.dumps(_EXTRA)}, _connection, "shop")
    yield _text("connection as URI", f"postgres://me:{SECRET}@db:5432/x?a=b".encode(), _connection, "shop")
    yield _text("storage options", {"key": "k", "secret": SECRET, "client_kwargs": {"x": [1]}}, _storage_options)
    yield _text("extra", {"storage_options": {"secret": SECRET}, "endpoint_url": "http://x"}, _extra)
    yield _text("extra with text", {"storage_options": json.dumps({"secret": SECRET})}, _extra)
    pointer = {"job_id": "orders", "root": "/r", "try_number": 1, "max_tries": 2, "generation": 0, "status": "RUNNING"}
    yield _text(
        "pointer", {**pointer, "epoch": 1, "checkpoint": 2, "released": 2, "submission": {"tag": "x"}}, _task_state
    )
    yield _text("failures", {"job_id": "orders", "progress": [1, 2, 3], "without_progress": 2}, _task_state)


FORMATS = list(_formats())
