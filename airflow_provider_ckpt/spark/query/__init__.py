"""Rules for the queries of users: schemas, unions, event time and state."""
