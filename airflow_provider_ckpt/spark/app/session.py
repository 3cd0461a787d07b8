"""The Spark session of a job, with the settings of the user and of this package."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.jvm.jvm_environ import jvm_environ
from airflow_provider_ckpt.jvm.jvm_watch import watch_jvm
from airflow_provider_ckpt.spark.app.jvm_log import keep_traces
from airflow_provider_ckpt.spark.app.known_warnings import silence
from airflow_provider_ckpt.spark.app.query_failure import find_cause
from airflow_provider_ckpt.spark.app.session_settings import POLL_MS, POLLING
from airflow_provider_ckpt.spark.errors import UnfitSettingError
from airflow_provider_ckpt.spark.query.sources.source_options import refuse_settings
from airflow_provider_ckpt.status.trace_file import trace_file
from airflow_provider_ckpt.storage.opening import is_local as is_local_uri
from airflow_provider_ckpt.storage.redaction import conf_secrets, note_given

VARIABLE = "PYSPARK_PYTHON"
WORKERS = "spark.pyspark.python"
DRIVER = "spark.pyspark.driver.python"


def worker_python(conf: Mapping[str, str], *, is_local: bool, is_submitted: bool) -> str | None:
    """Return the Python that the user has set for Spark's Python workers; None if the user has set none.

    Args:
        is_local: True if the Python workers run on this host, so that their Python must exist here.
        is_submitted: True if ``spark-submit`` has started this process, with the user's Python for the driver.

    Raises UnfitSettingError.
    """
    driver, workers = conf.get(DRIVER), conf.get(WORKERS)
    if driver is not None and not is_submitted and not _is_this(driver):
        raise UnfitSettingError(
            "Spark setting spark.pyspark.driver.python={value!r} cannot be honoured: this process is the driver, and "
            "runs {running}. Run ckpt with that Python, or remove the setting",
            value=driver,
            running=sys.executable,
        )
    if workers is not None and is_local and shutil.which(workers) is None:
        raise UnfitSettingError(
            "Spark setting spark.pyspark.python={value!r} names no program on this host, where the workers of a local "
            "master run. Give the path of a Python that has the packages of the job, or remove the setting",
            value=workers,
        )
    return workers


def _is_this(python: str) -> bool:
    path = shutil.which(python)
    return path is not None and os.path.abspath(path) == os.path.abspath(sys.executable)


NEEDED = {
    # offsets are stored by the source's name, so that a finished source can be left out (R2). Spark 4.2 needs the
    # version of the format as well
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
    # in 4.2.0 this check fails with None.get after each kill in the middle of a batch. A stateless query restarts with
    # a batch that is planned but not committed, and whose offsets do not name the shuffle partitions
    "spark.sql.streaming.checkUnfinishedRepartitionOnRestart": "false",
    # the slowest input decides, because its rows would be dropped as late otherwise. An ended input is left out (R13)
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    # this package reads the logs of file sources and writes the logs of result partitions with these intervals
    "spark.sql.streaming.fileSource.log.compactInterval": "10",
    "spark.sql.streaming.fileSink.log.compactInterval": "10",
    # at each start Spark infers the type of a folder's column from the folders of that moment. So a new folder would
    # change the type, and the output of the job with it. Text always fits, and keeps a value such as 007
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # with pushdown, Spark drops rows by the query's conditions while it parses. So one query would find a malformed row
    # and another would not
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
}
STATE_STORE = {
    # the default store finds its files by the batch number alone. After a restore it loads files of void batches
    # (measured: a count of 7 instead of 10). So does RocksDB's format 1, in which an overtaken driver also overwrites
    # our files
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
PREFERRED = {
    "spark.scheduler.mode": "FAIR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    # SPARK-58241: in 4.2.0 a Python UDF directly after a columnar scan waits for ever. Result partitions are Parquet,
    # so a job that works as one query would hang silently when it is cut into two
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # a poll for new data takes 1 to 4 ms of a core. With Spark's default of 10 ms, an idle query uses 0.1 to 0.4 cores.
    # A row must be read within 100 ms
    POLLING: f"{POLL_MS}ms",
}
ON_LOCAL_DISKS = {
    # Spark's default starts a `readlink` or `stat` process for each file: 48 a micro-batch, which is most of the cost
    # of a small one. It is not safer, because both managers check first and then call rename(2). On HDFS, Spark's
    # default stays, because there the rename of this manager would not overwrite an existing file
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
HIDDEN_OPTIONS = {
    # options of readers, hidden in plans, the event log and the UI. Spark's default hides urls, and names that contain
    # "password". A Kafka source has its password in sasl.jaas.config and its key in ssl.keystore.key
    "spark.sql.redaction.options.regex": "(?i)url|jaas|keystore|secret|password|token|credential",
    # settings, hidden in the UI and the event log. Spark's default misses keys of Azure accounts, JAAS, and the
    # variables in which drivers get storage options and connections
    "spark.redaction.regex": (
        "(?i)secret|passw|token|access[.]?key|account[.]?key|credential|jaas|[.]sas[.]|storage_options|airflow_conn"
    ),
}
LOG_LEVEL = "spark.log.level"


def session_conf(user: Mapping[str, str], root: str | None = None) -> dict[str, str]:
    """Return the settings of the user and of this package. ``root``: URI of the job's root; None if unknown.

    Raises UnfitSettingError for a setting that cannot be applied, or with which rows would be lost.
    """
    refuse_settings(user)
    for key, needed in NEEDED.items():
        value = user.get(key)
        if value is not None and value.lower() != needed:
            raise UnfitSettingError(
                "Spark setting {key}={value!r} cannot be honoured: a finished source can only be dropped with "
                "{key}={needed}; remove the setting",
                key=key,
                value=value,
                needed=needed,
            )
    for key, needed in STATE_STORE.items():
        if user.get(key, needed) != needed:
            raise UnfitSettingError(
                "Spark setting {key}={value!r} cannot be honoured: a job that goes back to a checkpoint would keep "
                "state of later rows, or lose state; set {key}={needed}, or remove the setting",
                key=key,
                value=user[key],
                needed=needed,
            )
    local = ON_LOCAL_DISKS if root is not None and is_local_uri(root) else {}
    conf = {**PREFERRED, **HIDDEN_OPTIONS, **local, **user, **NEEDED, **STATE_STORE}
    if not _logs_as_configured(user):
        # at INFO, spark-submit's default, an idle query writes megabytes a minute
        conf.setdefault(LOG_LEVEL, "WARN")
    return conf


def build_session(name: str, user: Mapping[str, str], root: str | None = None) -> SparkSession:
    """Get or create the session. Its default master is ``local[*]``. ``user``: settings that override spark-submit's.

    Raises TransientError, and the errors of :func:`session_conf` and :func:`worker_python`.
    """
    user_conf = {**_submitted(), **user}
    note_given(conf_secrets(user_conf))
    conf = session_conf(user_conf, root)
    is_local = user_conf.get("spark.master", "local").startswith("local")
    python = worker_python(user_conf, is_local=is_local, is_submitted="PYSPARK_GATEWAY_PORT" in os.environ)
    builder = SparkSession.builder.appName(user_conf.get("spark.app.name", name))
    for key, value in conf.items():
        builder = builder.config(key, value)
    if SparkSession.getActiveSession() is None and "spark.master" not in user_conf:
        builder = builder.master("local[*]")
    if python is not None:  # the setting wins over the variable, as for spark-submit
        os.environ[VARIABLE] = python
    elif is_local:
        # local workers run the driver's Python. PySpark's default is the python3 on the PATH, which may be another one
        os.environ.setdefault(VARIABLE, sys.executable)
    with _quick_jvm(user_conf):
        spark = _started(builder)
    note_given(conf_secrets(dict(spark.sparkContext.getConf().getAll())))  # spark-defaults.conf has some, too
    if (jvm := _own_jvm()) is not None:
        watch_jvm(jvm)
    for key, value in conf.items():
        if key.startswith("spark.sql.") and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    if not _logs_as_configured(user_conf):
        silence(spark)
        keep_traces(spark, trace_file())
    return spark


def _started(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as error:  # from Py4J, PySpark or a JVM that has ended
        cause = str(find_cause(error).message).strip()
        raise TransientError(
            "Spark could not be started: {cause}; the job has not begun. Read Spark's log before this line, and check "
            "its settings (spark.master, spark.driver.memory, spark.jars); `ckpt doctor` checks Java and the "
            "installation",
            cause=cause.rstrip(".") or type(error).__name__,
        ) from error


def _own_jvm() -> int | None:
    """Return the process id of the JVM; None if the JVM may serve other processes, too.

    The JVM serves only this process if it is a child of this process, or the spark-submit that has started this
    process.
    """
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
def _quick_jvm(user_conf: Mapping[str, str]) -> Iterator[None]:
    """Add options for a JVM that starts in this block to the environment. Remove them at the end of the block.

    Add nothing if the JVM already runs.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        yield
        return
    added = jvm_environ(os.environ, user_conf.values())
    previous = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _logs_as_configured(user: Mapping[str, str]) -> bool:
    """Return whether the user has configured logging. Then this package must not set spark.log.level."""
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    return "log4j" in user.get("spark.driver.extraJavaOptions", "") or any(
        os.path.exists(os.path.join(folder, f"log4j2.{kind}")) for kind in ("properties", "xml", "yaml", "json")
    )


def _submitted() -> dict[str, str]:
    """Return the settings of the spark-submit that started this process; empty if there is none.

    Without spark-submit, reading the settings would start the JVM too early.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # connects to spark-submit's JVM; without a connection a SparkConf is empty
    return dict(SparkConf().getAll())
