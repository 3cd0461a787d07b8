"""Airflow hooks: spark-submit for a job's driver, and the connection of a checkpoint root."""
