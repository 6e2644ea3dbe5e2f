"""The gates of the validation hub, one a file."""
