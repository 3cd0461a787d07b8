"""Two-phase-commit sinks, and the interface that all of them implement."""
