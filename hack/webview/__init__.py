"""The web view of a simulated cluster, for its tests in a browser and for pictures of it."""
