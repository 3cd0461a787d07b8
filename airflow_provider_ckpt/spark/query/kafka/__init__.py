"""Kafka sources: their options, their offsets and their frozen ends."""
