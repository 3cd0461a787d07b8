"""The preparation of a run before it claims the job, and the making of its tasks afterwards."""
