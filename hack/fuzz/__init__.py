"""Hostile objects of every kind, drawn from the schemas of the API, and what becomes of the operator."""
