"""The processes of a job that run Spark, driver and workers, from the start of a process to its end."""
