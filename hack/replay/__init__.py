"""A simulator's world in a real cluster: its nodes and Deployments, and its load as Prometheus scrapes it."""
