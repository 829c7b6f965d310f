class DevClusterError(Exception):
    """The development cluster can't do what was asked; the message is written for the person who asked."""
