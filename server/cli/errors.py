"""The error that a command raises when it could not do its work."""


class CannotRun(Exception):
    """The text is for the user: what was wrong, where, and what to do. The command line prints it and exits with 2."""
