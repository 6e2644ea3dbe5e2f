"""Why a graph, or a measured run on it, cannot be shown. By itself, so that the server need not import what makes them."""

from __future__ import annotations


class NotShown(Exception):
    """The text is for the user."""
