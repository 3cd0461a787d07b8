"""Tasks that run a streaming query: micro-batches, pauses, changes and the end of data."""
