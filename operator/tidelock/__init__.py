"""Tidelock: expiring locks on node capacity and load-aware placement for Kubernetes."""

__version__ = "0.1.0"
