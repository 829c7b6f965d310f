"""Adapters to other projects: they speak the peers' protocols and Tidelock's own API."""
