"""The decisions about a running job, without I/O. Each message or deadline results in effects."""
