"""The error of the options for other binders."""


class ClientsError(Exception):
    """The certificates of schedulers can't be used."""
