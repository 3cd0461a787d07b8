"""The common parts of the sinks that write to tables of a data lake."""
