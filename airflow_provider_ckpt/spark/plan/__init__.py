"""The plan of a job: the DataFrames of its queries, and their comparison with earlier runs."""
