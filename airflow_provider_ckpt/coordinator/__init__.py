"""The decisions about a running job, without I/O: messages and time in, effects out."""
