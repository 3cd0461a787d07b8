"""Access to a job from outside its driver: its state, requests to it, releases and deletion."""
