"""The search for data that a job no longer needs, and the deletion of such data."""
