"""The preparation of a run before it claims the job, and the making of the run's tasks after the claim."""
