"""Shadow runs beside simulated clusters, for a test and for a picture."""
