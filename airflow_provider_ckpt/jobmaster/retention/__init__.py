"""The search for data that a job no longer needs, and their deletion."""
