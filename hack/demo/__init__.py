"""The demo: the story of a reservation on a real control plane, checked step by step."""
