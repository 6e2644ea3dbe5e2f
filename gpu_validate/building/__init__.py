"""Builds of versions outside the user's tree."""
