"""A simulator's world in a real cluster: its nodes, its Deployments, and its load for Prometheus."""
