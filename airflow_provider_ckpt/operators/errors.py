"""Errors of the operators."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError


class SparkConnectionMissingError(InvalidInputError):
    template = (
        "The Airflow connection {conn_id!r}, which says where Spark runs, does not exist. Create it with type spark "
        "and the master as its host (local[*], spark://host:7077, yarn, k8s://...), or name another one with conn_id=."
    )
