"""The Spark session of a job: what the library needs, on top of what the user set."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from airflow_provider_ckpt.launch.jvm_environ import jvm_environ
from airflow_provider_ckpt.launch.jvm_watch import watch_jvm
from airflow_provider_ckpt.report.trace_file import trace_file
from airflow_provider_ckpt.spark.errors import SparkNotStartedError, UnsupportedConfError, UnsupportedStateStoreError
from airflow_provider_ckpt.spark.jvm_log import keep_traces
from airflow_provider_ckpt.spark.query.source_options import refuse_settings
from airflow_provider_ckpt.spark.task.causes import find_cause
from airflow_provider_ckpt.spark.task.known_warnings import silence
from airflow_provider_ckpt.spark.task.session_settings import LOOK, POLLING
from airflow_provider_ckpt.spark.worker_python import VARIABLE, worker_python
from airflow_provider_ckpt.storage.opening import is_local as is_local_uri
from airflow_provider_ckpt.storage.redaction import conf_secrets, note_given

NEEDED = {
    # sources are keyed by name, so that a finished one can be left out (R2); 4.2 needs the format by hand
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
    # the check fails with None.get in 4.2.0 when a stateless query restarts with a batch that is planned but not
    # committed, that is after every kill in the middle of a batch (its offsets do not name the shuffle partitions)
    "spark.sql.streaming.checkUnfinishedRepartitionOnRestart": "false",
    # the slowest input decides, or rows of it would be dropped as late; one that has ended is left out (R13)
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    # the logs of file sources are read, and those of result partitions written, with these intervals in mind
    "spark.sql.streaming.fileSource.log.compactInterval": "10",
    "spark.sql.streaming.fileSink.log.compactInterval": "10",
    # Spark guesses the type of a folder's column anew at each start, from the folders of that moment. So a new folder
    # would change the type, and the output of the job with it. Text always fits, and keeps a value such as 007
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Spark drops rows by the query's conditions while it parses. So a malformed row would be found in one query and
    # not in another
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
}
STATE_STORE = {
    # the default store finds its files by the batch alone: after a rewind it takes up those of the batches that are
    # void (tried: 7 counted for 10). So does RocksDB's format 1, in which an overtaken driver also writes over ours
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
PREFERRED = {
    "spark.scheduler.mode": "FAIR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    # SPARK-58241: in 4.2.0 a Python UDF right behind a scan that gives column batches waits for ever. Result partitions
    # are Parquet: a job that runs in one query would stand still, in silence, once it is cut in two
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # a look at what is new takes 1 to 4 ms of a core: with Spark's own 10 ms an idle query keeps 0.1 to 0.4 of one
    # busy. A row is to be seen within 100 ms
    POLLING: f"{LOOK}ms",
}
ON_LOCAL_DISKS = {
    # Spark's own choice asks a `readlink` or `stat` process of the system for each file that it looks at: 48 a
    # micro-batch, most of what a small one costs. Both look first and then call rename(2), so none is safer; on HDFS
    # this one's rename would not write over what is there, so there the choice stays Spark's
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
HIDDEN_OPTIONS = {
    # of readers, in plans, the event log and the UI. Spark's own choice is urls, and names with "password" in them; a
    # Kafka source's password is in sasl.jaas.config, its key in ssl.keystore.key
    "spark.sql.redaction.options.regex": "(?i)url|jaas|keystore|secret|password|token|credential",
    # of settings, in the UI and the event log. Spark's own choice has no key of an Azure account, no JAAS and none of
    # the variables in which drivers get storage options and connections
    "spark.redaction.regex": (
        "(?i)secret|passw|token|access[.]?key|account[.]?key|credential|jaas|[.]sas[.]|storage_options|airflow_conn"
    ),
}
LOG_LEVEL = "spark.log.level"


def session_conf(user: Mapping[str, str], root: str | None = None) -> dict[str, str]:
    """The conf to build the session with. ``root``: the URI of what Spark's checkpoints lie in, if it is known.

    Raises UnsupportedConfError and UnsupportedStateStoreError for a setting we cannot honour, LosingSettingError for
    one with which rows get lost.
    """
    refuse_settings(user)
    for key, needed in NEEDED.items():
        given = user.get(key)
        if given is not None and given.lower() != needed:
            raise UnsupportedConfError(key=key, value=given, needed=needed)
    for key, needed in STATE_STORE.items():
        if user.get(key, needed) != needed:
            raise UnsupportedStateStoreError(key=key, value=user[key], needed=needed)
    local = ON_LOCAL_DISKS if root is not None and is_local_uri(root) else {}
    conf = {**PREFERRED, **HIDDEN_OPTIONS, **local, **user, **NEEDED, **STATE_STORE}
    if not _logs_as_configured(user):
        # at INFO, spark-submit's default, an idle query writes megabytes a minute
        conf.setdefault(LOG_LEVEL, "WARN")
    return conf


def build_session(name: str, user: Mapping[str, str], root: str | None = None) -> SparkSession:
    """Get or create the session. The user's conf is ``user`` over what spark-submit was given; the master
    defaults to ``local[*]``. ``root`` is as in :func:`session_conf`. Raises SparkNotStartedError, and what
    :func:`session_conf` and :func:`worker_python` raise."""
    given = {**_submitted(), **user}
    note_given(conf_secrets(given))
    conf = session_conf(given, root)
    is_local = given.get("spark.master", "local").startswith("local")
    python = worker_python(given, is_local=is_local, is_submitted="PYSPARK_GATEWAY_PORT" in os.environ)
    builder = SparkSession.builder.appName(given.get("spark.app.name", name))
    for key, value in conf.items():
        builder = builder.config(key, value)
    if SparkSession.getActiveSession() is None and "spark.master" not in given:
        builder = builder.master("local[*]")
    if python is not None:  # the setting wins over the variable, as for spark-submit
        os.environ[VARIABLE] = python
    elif is_local:
        # on this machine the workers run what runs the driver, not the python3 that PATH happens to find
        os.environ.setdefault(VARIABLE, sys.executable)
    with _quick_jvm(given):
        spark = _started(builder)
    note_given(conf_secrets(dict(spark.sparkContext.getConf().getAll())))  # spark-defaults.conf has some, too
    if (jvm := _own_jvm()) is not None:
        watch_jvm(jvm)
    for key, value in conf.items():
        if key.startswith("spark.sql.") and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    if not _logs_as_configured(given):
        silence(spark)
        keep_traces(spark, trace_file())
    return spark


def _started(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as error:  # of Py4J, of PySpark, of a JVM that is no more
        cause = str(find_cause(error).message).strip()
        raise SparkNotStartedError(cause=cause.rstrip(".") or type(error).__name__) from error


def _own_jvm() -> int | None:
    """The JVM, if it is there for this process alone: one that it has started, or a spark-submit that has started
    nothing but it. A notebook server's serves others, and so does that of a process which this one was forked from."""
    gateway: Any = SparkContext._gateway
    process = gateway.jvm.java.lang.ProcessHandle.current()
    if gateway.proc is not None:
        parent = process.parent()
        is_own = parent.isPresent() and parent.get().pid() == os.getpid()
    else:
        command = str(gateway.jvm.System.getProperty("sun.java.command"))
        is_submit = command.startswith("org.apache.spark.deploy.SparkSubmit ") and " --class " not in command
        is_own = is_submit and process.pid() == os.getppid()
    return int(process.pid()) if is_own else None


@contextmanager
def _quick_jvm(given: Mapping[str, str]) -> Iterator[None]:
    """Only a JVM that is started here is given anything, and what else this process starts finds its environment as it
    was."""
    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        yield
        return
    added = jvm_environ(os.environ, given.values())
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _logs_as_configured(user: Mapping[str, str]) -> bool:
    """Whether somebody has configured logging: spark.log.level would override it."""
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    return "log4j" in user.get("spark.driver.extraJavaOptions", "") or any(
        os.path.exists(os.path.join(folder, f"log4j2.{kind}")) for kind in ("properties", "xml", "yaml", "json")
    )


def _submitted() -> dict[str, str]:
    """What spark-submit was given. Without spark-submit nothing is asked: asking starts the JVM, and settings
    that a JVM takes at its start (the driver's memory) would come too late."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # connects to spark-submit's JVM: a SparkConf made before it is empty
    return dict(SparkConf().getAll())
