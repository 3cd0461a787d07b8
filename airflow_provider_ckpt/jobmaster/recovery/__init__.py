"""The start of a run: the claim of the job, the restore, and the results of earlier runs."""
