"""Airflow sensors that wait for a checkpoint of a job."""
