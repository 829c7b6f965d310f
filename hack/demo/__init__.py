"""The demo: the story of a lock, played on a real control plane and checked step by step."""
