class DevClusterError(Exception):
    """A request to the development cluster failed. The message is written for the user at the terminal."""
