"""The web view over a cluster that is made up: for its tests in a browser, and for pictures of it."""
