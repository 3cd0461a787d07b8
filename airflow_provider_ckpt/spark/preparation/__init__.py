"""The preparation of a run before it claims the job, and the tasks that it then makes."""
