"""Airflow operators: a job as one task, and a job as a group of tasks."""
