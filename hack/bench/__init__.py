"""Benchmarks: figures for people to judge, never tests that a slow machine could fail."""
