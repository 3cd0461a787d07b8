"""The release of completed checkpoints in the sinks of a job."""
