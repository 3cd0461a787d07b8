"""Kafka sources: checks of their options, queries to the brokers, and frozen ends."""
