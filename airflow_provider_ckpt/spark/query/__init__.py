"""Checks and changes of the DataFrames that users' functions return: schemas, unions, event time and state."""
