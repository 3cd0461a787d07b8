"""The driver and the workers of a job on Spark, from their start to their end."""
