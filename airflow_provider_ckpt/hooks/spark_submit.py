"""The Spark provider's hook for spark-submit, extended to read the driver's status lines."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import secrets
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_ckpt.hooks.driver_connections import DriverConnections
from airflow_provider_ckpt.hooks.driver_log import LineLevels, log_status
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.job.options.storage_options import STORAGE_OPTIONS_VARIABLE, storage_options_environ
from airflow_provider_ckpt.jvm.jvm_environ import jvm_environ
from airflow_provider_ckpt.printable import printable
from airflow_provider_ckpt.status.status_line import TOKEN_VARIABLE, StatusLine, StatusReader
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.redaction import conf_secrets, redact, secret_names

_PR_SET_PDEATHSIG = 1
_DEPLOYED = re.compile(r"application ID (\S+) and submission ID \S+?:(\S+)")
"""Line that spark-submit prints on Kubernetes if it does not wait for the driver. The Spark provider ignores it."""
_ENVIRONMENTS = ("spark.kubernetes.driver.secretKeyRef", "spark.kubernetes.driverEnv", "spark.yarn.appMasterEnv")
"""Settings that set a variable in the environment of a driver in a cluster."""
_VARIABLE = re.compile(rf"^([\w.]*(?:{STORAGE_OPTIONS_VARIABLE}|AIRFLOW_CONN_\w+))=.*$", re.DOTALL)
"""Argument of a command line that sets a variable in the driver's environment."""
_ID = re.compile(r"application_\d+_\d+|[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class CheckpointedSparkSubmitHook(SparkSubmitHook):
    """Hook that submits a driver with the configuration of the hook ``base``.

    The hook copies the whole configuration, so arguments of newer Spark providers are kept, too.

    In client mode the driver gets connections and the options of the root only in the environment of spark-submit's
    process. In cluster mode the driver does not get this environment. The hook then refuses connections and secret
    options, and passes all further options as Spark settings.

    Args:
        py_files: Python files, placed before those of ``base``.
        on_status: Called once for each status line of a driver in client mode, in the thread that runs :meth:`submit`.
            In cluster mode this process does not see the driver's output.
        location: Location of the job's root. This hook removes the location's secrets, and those of Spark's settings
            and the environment, from every line that it logs or puts into an exception.
        conf: Settings of Spark that override those of ``base``.

    Raises InvalidTaskArgumentError for connections or secret options in cluster mode.
    """

    def __init__(
        self,
        base: SparkSubmitHook,
        *,
        name: str,
        application_args: Sequence[str],
        py_files: Sequence[str] = (),
        on_status: Callable[[StatusLine], None],
        location: Location | None = None,
        conf: Mapping[str, str] | None = None,
        connections: DriverConnections | None = None,
    ) -> None:
        self.__dict__.update(base.__dict__)
        self._conf = {**self._conf, **(conf or {})}
        self._name = name
        self._application_args = list(application_args)
        # Set here and not on the Airflow operator, because its fields are shown as rendered templates.
        self._py_files = ",".join([*py_files, *([self._py_files] if self._py_files else [])]) or None
        self._connections = connections or DriverConnections()
        self._on_status = on_status
        self._token = secrets.token_hex(16)
        location_secrets = location.secrets() if location is not None else ()
        settings = {**{str(key): str(value) for key, value in (self._env_vars or {}).items()}, **self._conf}
        self._secrets = (*location_secrets, *self._connections.secrets, *conf_secrets(settings), self._token)
        self._reader = StatusReader(self._token, lambda text: self.log.warning("%s", text), self._redact)
        self._environ_of_driver: dict[str, str] = {}
        """Variables in the driver's environment that are no Spark settings. Only in client mode."""
        options = {} if location is None else location.options
        if self.deploy_mode == "client":
            environ = {**self._connections.environ, **storage_options_environ(options)}
            self._environ_of_driver = {**environ, TOKEN_VARIABLE: self._token}
        else:
            self._set_cluster_environ(options)

    def _set_cluster_environ(self, options: Mapping[str, Any]) -> None:
        """Set the environment of a driver in a cluster. Every user can read it, as a part of the Spark configuration.

        Raises InvalidTaskArgumentError if the driver needs connections, or if a storage option may be secret and the
        user does not set the variable.
        """
        if self._connections.environ:
            ids = [name.removeprefix("AIRFLOW_CONN_").lower() for name in self._connections.environ]
            raise InvalidTaskArgumentError(
                "conn_ids={conn_ids!r} cannot be handed to a driver in cluster mode: what spark-submit sets in its "
                "environment there is on its command line and in Spark's UI. Leave conn_ids out, and have the "
                "cluster set {variables} (on Kubernetes "
                "spark.kubernetes.driver.secretKeyRef.<variable>=<secret>:<key>); or use client mode.",
                conn_ids=ids,
                variables=", ".join(self._connections.environ),
            )
        environ = {} if self._sets_storage_options() else storage_options_environ(options)
        if environ and (names := sorted(secret_names(options))):
            raise InvalidTaskArgumentError(
                "the storage options {names!r} may be secret and cannot be handed to a driver in cluster mode: what "
                "spark-submit sets in its environment there is on its command line and in Spark's UI. Have the "
                "cluster set {variable} (on Kubernetes "
                "spark.kubernetes.driver.secretKeyRef.{variable}=<secret>:<key>); or, for a driver that has "
                "credentials of its own such as an instance role, give env_vars={{{variable!r}: '{{}}'}}; or use "
                "client mode.",
                names=names,
                variable=STORAGE_OPTIONS_VARIABLE,
            )
        if self._is_yarn or self._is_kubernetes:
            # The user's own spark-submit may follow the driver's log.
            environ = {**environ, TOKEN_VARIABLE: self._token}
        if environ:
            self._env_vars = {**(self._env_vars or {}), **environ}

    def _sets_storage_options(self) -> bool:
        """Return True if the task or its Spark connection sets the driver's storage options."""
        settings = (f"{kind}.{STORAGE_OPTIONS_VARIABLE}" for kind in _ENVIRONMENTS)
        return STORAGE_OPTIONS_VARIABLE in (self._env_vars or {}) or any(name in self._conf for name in settings)

    @property
    def deploy_mode(self) -> str:
        return self._connection["deploy_mode"] or "client"

    @property
    def exit_code(self) -> int | None:
        """Exit code of spark-submit, which in client mode is the driver's. None before the end of spark-submit."""
        return None if self._submit_sp is None else self._submit_sp.poll()

    @property
    def application_id(self) -> str | None:
        """Id of a driver in YARN's or Kubernetes' cluster mode. None if spark-submit's output does not have it."""
        application_id = self._yarn_application_id if self._is_yarn else self._kubernetes_application_id
        return application_id if application_id is not None and _ID.fullmatch(application_id) else None

    def _build_spark_submit_command(self, application: str) -> list[str]:
        """Return the command line, without the variables of ``_environ_of_driver``.

        On YARN and Kubernetes the base class passes an environment as Spark settings, even in client mode. The command
        line would show the variables, and on Kubernetes the driver's environment would lack them.
        """
        command: list[str] = super()._build_spark_submit_command(application)
        if self._environ_of_driver:
            self._env = {**(self._env or {}), **self._environ_of_driver}
        if self.deploy_mode == "client":  # in cluster mode this JVM only submits
            environ = {**os.environ, **(self._env_vars or {}), **(self._env or {})}
            added = jvm_environ(environ, command, submit=command[0])
            self._env = {**(self._env or {}), **added} or None
        return command

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        if sys.platform == "linux":
            kwargs.setdefault("preexec_fn", _die_with_parent())
        # Airflow ends a task with a signal to its whole process group, and the driver would die before it could
        # take a savepoint. In a group of its own it gets only the request of on_kill.
        kwargs.setdefault("start_new_session", True)
        driver: str | None = super().submit(application, **kwargs)
        return driver

    def ask_to_leave(self) -> bool:
        """Send SIGTERM to spark-submit, at which its worker leaves. Return False if the process does not run."""
        if self._submit_sp is None or self._submit_sp.poll() is not None:
            return False
        self._submit_sp.terminate()
        return True

    def leave(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the end of spark-submit. Return True if it has ended or has not begun."""
        if self._submit_sp is None:
            return True
        try:
            self._submit_sp.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def on_kill(self) -> None:
        """End spark-submit, and the Python driver, which the base class would not end."""
        is_alive = self._submit_sp is not None and self._submit_sp.poll() is None
        super().on_kill()
        if self._submit_sp is not None and is_alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._submit_sp.pid, signal.SIGKILL)

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        lines = self._without_status_lines(itr)
        if self.deploy_mode != "client":
            super()._process_spark_submit_log(lines)
            return
        # The base class does this on Kubernetes with the first line, but a quiet driver writes only status lines.
        self._spark_exit_code = 0
        levels = LineLevels()
        for line in lines:
            text = line.rstrip()
            self._keep_for_error(text)
            self.log.log(levels.of(text), "%s", text)

    def _keep_for_error(self, line: str) -> None:
        """Record a line, so that the base class's error can show the last lines or the lines after a JVM exception."""
        if not self._exception_anchor_seen and 'Exception in thread "' in line:
            self._exception_anchor_seen = True
            self._last_submit_log_lines = deque(maxlen=500)
        self._last_submit_log_lines.append(line)

    def _without_status_lines(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            status = self._reader.read(line)
            if status is None:
                self._note_driver(line)
                yield printable(self._redact(line.rstrip()))
                continue
            log_status(self.log, status)
            self._on_status(status)

    def _note_driver(self, line: str) -> None:
        """Record the ids of a driver on Kubernetes, except in client mode.

        In client mode the driver wrote the line, so the line could name any pod for the hook to delete.
        """
        match = _DEPLOYED.search(line) if self._is_kubernetes and self.deploy_mode != "client" else None
        if match is not None:
            self._kubernetes_application_id, self._kubernetes_driver_pod = match.groups()

    def _mask_cmd(self, connection_cmd: str | list[str]) -> str:
        """Return the command for logs and errors, without secrets and without the driver's options."""
        words = [connection_cmd] if isinstance(connection_cmd, str) else connection_cmd
        shown = self._redact(super()._mask_cmd([_VARIABLE.sub(r"\1=***", word) for word in words]))
        return re.sub(r"(--options) \{.*\}", r"\1 {...}", shown, flags=re.DOTALL)

    def _redact(self, text: str) -> str:
        return redact(text, self._secrets)


def _die_with_parent() -> Callable[[], None]:
    """Return a function for ``Popen(preexec_fn=…)`` that ends spark-submit with SIGTERM when the task process dies.

    The kernel sends the signal (PR_SET_PDEATHSIG), even after a SIGKILL. The signal reaches the JVM only. The Python
    driver ends when it is fenced (R8).
    """
    parent = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)  # loaded before the fork, so that the child needs no import lock

    def request_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the task process died between fork and prctl
            os.kill(os.getpid(), signal.SIGTERM)

    return request_signal
