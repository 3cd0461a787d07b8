"""Gates to use as they are: what may hold the releases of a sink."""
