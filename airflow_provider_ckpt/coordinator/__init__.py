"""The coordinator, which decides about a running job without I/O. It turns messages and deadlines into effects."""
