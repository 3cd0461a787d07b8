"""Errors of connections and of tasks' arguments."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, RequestFailedError, RequestFailure, TransientError


class NoCheckpointRootError(InvalidInputError):
    template = (
        "There is no checkpoint root: the Airflow connection {conn_id!r} does not exist or names no root. "
        "Create it with type ckpt and the root URI as its host (s3://bucket/prefix, /shared/folder), "
        "or give root= to the Airflow operator."
    )


class InvalidCkptConnectionError(InvalidInputError):
    template = "The Airflow connection {conn_id!r} (type ckpt) cannot be used: {problem}."


class InvalidRootError(InvalidCkptConnectionError):
    """A bad root from ``root=`` instead of a connection. Data: conn_id, problem."""

    template = "root= cannot be used: {problem}."


class DriverConnectionMissingError(InvalidInputError):
    template = (
        "conn_ids names the Airflow connection {conn_id!r}, which does not exist. Create it, or leave it out if no "
        "sink or source of the job uses it."
    )


class ConnectionsNotHandedError(InvalidInputError):
    """Connections for a driver in cluster mode. Its environment is configuration there, which every user can read.
    Data: conn_ids."""

    template = (
        "conn_ids={conn_ids!r} cannot be handed to a driver in cluster mode: what spark-submit sets in its environment "
        "there is on its command line and in Spark's UI. Leave conn_ids out, and have the cluster set {variables} (on "
        "Kubernetes spark.kubernetes.driver.secretKeyRef.<variable>=<secret>:<key>); or use client mode."
    )


class StorageOptionsNotHandedError(InvalidInputError):
    """Secret storage options for a driver in cluster mode. See :class:`ConnectionsNotHandedError`. Data: names."""

    template = (
        "the storage options {names!r} may be secret and cannot be handed to a driver in cluster mode: what "
        "spark-submit sets in its environment there is on its command line and in Spark's UI. Have the cluster set "
        "{variable} (on Kubernetes spark.kubernetes.driver.secretKeyRef.{variable}=<secret>:<key>); or, for a driver "
        "that has credentials of its own such as an instance role, give env_vars={{{variable!r}: '{{}}'}}; or use "
        "client mode."
    )


class InvalidTaskArgumentError(InvalidInputError):
    template = "{argument}={value!r} cannot be used: {problem}."


class NotDeferrableError(InvalidInputError):
    template = (
        "deferrable=True cannot be used with the Spark connection {conn_id!r} (master {master}, deploy mode "
        "{deploy_mode}): {problem}."
    )


class SparkProviderUnfitError(InvalidInputError):
    """A Spark provider without private names that this package uses. Data: package, found, kind, lacking, tried."""

    template = (
        "{package} {found} cannot be used: its {kind} has no {lacking}, which this release needs. It is too new if it "
        "is newer than {tried}, the newest version that was tried: pip install '{package}=={tried}'"
    )


class ReconfigurationFailedError(RequestFailedError, TransientError):
    """A change that failed, so that the job continues unchanged. Data: job_id, outcome."""

    reason = RequestFailure.RECONFIGURATION_FAILED
    template = "job {job_id!r} was not changed, and continues as before: {outcome}"
