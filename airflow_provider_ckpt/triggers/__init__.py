"""Airflow triggers: waits for jobs and drivers, and the JobMaster of a group."""
