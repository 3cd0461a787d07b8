"""The provider's description for Airflow's provider manager (entry point group ``apache_airflow_provider``)."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt import __version__

INTEGRATION = "Checkpointed Spark jobs"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description. Airflow calls this function at its start, so it imports no other module."""
    package = "airflow_provider_ckpt"
    return {
        "package-name": "airflow-provider-ckpt",
        "name": "Checkpointed Spark jobs (ckpt)",
        "description": "Mixed bounded/unbounded PySpark jobs with Flink's checkpoint semantics.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": INTEGRATION,
                "tags": ["software"],
            }
        ],
        "operators": [
            _modules(
                *(
                    f"{package}.operators.{name}"
                    for name in ("spark_job", "job_group", "request_operators", "job_cleanup")
                )
            ),
        ],
        "sensors": [_modules(f"{package}.sensors.checkpoint")],
        "hooks": [_modules(f"{package}.hooks.checkpoint", f"{package}.hooks.spark_submit")],
        "triggers": [
            _modules(
                f"{package}.triggers.checkpoint",
                f"{package}.triggers.release",
                f"{package}.triggers.spark_application",
            )
        ],
        "extra-links": [f"{package}.operators.links.SparkUILink", f"{package}.operators.links.OutputLink"],
        "connection-types": [
            {
                "connection-type": "ckpt",
                "hook-class-name": f"{package}.hooks.checkpoint.CheckpointHook",
                "hook-name": "Checkpoint root (ckpt)",
                "ui-field-behaviour": _FIELDS,
                "conn-fields": _EXTRA_FIELDS,
            }
        ],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": INTEGRATION, "python-modules": list(names)}


_FIELDS = {
    "hidden-fields": ["schema", "port"],
    "relabeling": {"host": "Root URI", "login": "Access key (S3)", "password": "Secret key (S3)"},
    "placeholders": {
        "host": "s3://bucket/prefix or /shared/folder",
        "login": "leave empty for an instance role",
        "password": "leave empty for an instance role",
    },
}

_EXTRA_FIELDS = {
    "endpoint_url": {
        "label": "Endpoint URL",
        "description": "Of an S3-compatible server (MinIO, Ceph). Empty for AWS.",
        "schema": {"type": ["string", "null"]},
    },
    "storage_options": {
        "label": "Storage options",
        "description": "JSON object with the options of the fsspec file system (s3fs, gcsfs, adlfs, …).",
        "schema": {"type": ["object", "null"]},
    },
}
