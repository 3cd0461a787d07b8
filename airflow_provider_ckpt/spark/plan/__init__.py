"""The plan of a job: its graph, the DataFrames of its queries, and comparisons of both with earlier runs."""
