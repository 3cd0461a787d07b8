"""The options of a run: their declarations, their notations and their limits."""
