"""Airflow connections in processes that run without Airflow."""
