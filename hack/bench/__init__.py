"""Benchmarks. They report figures for people to judge, and are never tests that a slow machine could fail."""
