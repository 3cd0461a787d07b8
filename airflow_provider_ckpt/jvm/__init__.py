"""The JVMs of drivers on this machine: their faster start, and their end after a kill."""
