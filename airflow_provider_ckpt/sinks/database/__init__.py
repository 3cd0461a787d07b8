"""The common parts of the sinks that release in one transaction of a database."""
