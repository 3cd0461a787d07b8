"""Definitions of jobs, for journals whose tests do not depend on them."""

from airflow_provider_ckpt.model.definition import JobDefinition

STREAMING = JobDefinition("streaming", {}, {}, {})
