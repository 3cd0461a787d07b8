"""The rules for user queries: schemas, unions, event time and state."""
