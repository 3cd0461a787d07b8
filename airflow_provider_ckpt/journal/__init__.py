"""The journal of a job: its events, their replay, and the fencing of earlier drivers."""
