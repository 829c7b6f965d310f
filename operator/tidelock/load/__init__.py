"""Measured use: read from a source, kept over time, and written to annotations and WaterLevels' status."""
