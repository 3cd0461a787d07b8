"""The clusters in which a driver can outlive the task that submits it, and can be found again."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.hooks.application import ApplicationStatus, Submission
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.kubernetes_drivers import LABEL, KubernetesDrivers
from airflow_provider_ckpt.hooks.yarn_applications import ADDRESS, YarnApplications

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

_WAITS = {
    "yarn": "spark.yarn.submit.waitAppCompletion",
    "kubernetes": "spark.kubernetes.submission.waitAppCompletion",
}
_CLIENT = (
    "in client mode the driver is a child of the task and ends with it. Use deploy_mode='cluster' on YARN or "
    "Kubernetes, or leave deferrable out: the task then holds its worker slot while the job runs"
)
_ELSEWHERE = (
    "only YARN and Kubernetes run a Python driver that outlives its task. Leave deferrable out, or submit there"
)
_IDS = {"yarn": re.compile(r"application_\d+_\d+"), "kubernetes": re.compile(r"spark-[a-z0-9-]+")}
_TAGS, _ATTEMPTS = "spark.yarn.tags", "spark.yarn.maxAppAttempts"


def status_of(cluster: str, extra: Mapping[str, Any], *, kerberos: bool) -> ApplicationStatus:
    """Return the access to a cluster's reports.

    ``cluster`` is ``yarn`` or ``kubernetes``. For ``kerberos`` see :class:`Submission`. Raises KeyError if the extra
    lacks the address of YARN's ResourceManager, and ImportError if a package for the requests is not installed.
    """
    if cluster == "yarn":
        return YarnApplications.of(extra, kerberos=kerberos)
    return KubernetesDrivers()


@dataclass(frozen=True)
class DeferrableCluster:
    """Cluster of a deferrable task. ``name`` is ``yarn`` or ``kubernetes``."""

    name: str
    namespace: str | None
    kerberos: bool
    status: ApplicationStatus

    @classmethod
    def of(cls, hook: SparkSubmitHook, extra: Mapping[str, Any]) -> DeferrableCluster:
        """Return the cluster of a Spark connection.

        ``hook`` is the Spark provider's hook before it has submitted anything. ``extra`` is the connection's decoded
        extra. Raises InvalidTaskArgumentError if no driver can outlive its task in this cluster.
        """
        connection = hook._connection
        master, mode = connection["master"], connection["deploy_mode"] or "client"

        def refused(problem: str) -> InvalidTaskArgumentError:
            return InvalidTaskArgumentError(
                "deferrable=True cannot be used with the Spark connection {conn_id!r} (master {master}, deploy mode "
                "{deploy_mode}): {problem}.",
                conn_id=hook._conn_id,
                master=master,
                deploy_mode=mode,
                problem=problem,
            )

        name = "kubernetes" if master.startswith("k8s") else "yarn" if master.startswith("yarn") else None
        if master.startswith("local") or (mode != "cluster" and name is not None):
            raise refused(_CLIENT)
        if name is None:
            raise refused(_ELSEWHERE)
        if str(hook._conf.get(_WAITS[name], "false")).strip().lower() != "false":
            raise refused(f"{_WAITS[name]} has spark-submit wait for the driver. Leave it out of conf")
        if hook._post_submit_commands:
            raise refused("post_submit_commands run on a worker after the driver's end, and no worker is there then")
        if name == "kubernetes" and not connection["namespace"]:
            raise refused("where to look for the driver is not known. Give the Spark connection's extra a namespace")
        kerberos = name == "yarn" and bool(connection["keytab"] and connection["principal"])
        try:
            status = status_of(name, extra, kerberos=kerberos)
        except KeyError:
            raise refused(f"the Spark connection's extra needs {ADDRESS} (http://rm.example.com:8088)") from None
        except ImportError as error:
            raise refused(f"YARN is asked with Kerberos, which needs requests-kerberos ({error})") from error
        return cls(name, connection["namespace"], kerberos, status)

    def is_own_id(self, application_id: str) -> bool:
        """Return True if an application id has this cluster's form. An earlier driver may be of another cluster."""
        return _IDS[self.name].fullmatch(application_id) is not None

    def submission(self, attempt: str, after_epoch: int) -> Submission:
        tag = f"ckpt-{uuid.uuid4().hex}"
        return Submission(self.name, tag, attempt, after_epoch, self.namespace, self.kerberos)

    def conf(self, submission: Submission, given: Mapping[str, Any]) -> dict[str, str]:
        """Return Spark settings that tag the driver.

        On YARN they also set a single attempt, unless ``given`` sets a number, so that only Airflow restarts the
        driver.
        """
        if self.name == "kubernetes":
            return {f"spark.kubernetes.driver.label.{LABEL}": submission.tag}
        tags = ",".join(filter(None, [str(given.get(_TAGS) or ""), submission.tag]))
        return {_TAGS: tags, _ATTEMPTS: str(given.get(_ATTEMPTS, 1))}
