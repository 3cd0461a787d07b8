"""The Spark application of a driver: its session, its settings, its log and its signals."""
