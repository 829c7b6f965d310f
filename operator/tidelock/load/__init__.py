"""Measured use: read from a source, kept over time, written to annotations and to WaterLevels' status."""
