"""Builds kubectl tidelock as one file that needs only Python, and an archive for krew."""
