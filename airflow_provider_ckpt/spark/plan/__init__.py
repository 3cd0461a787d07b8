"""The plan of a job: the DataFrames of its queries, and the comparison with earlier runs."""
