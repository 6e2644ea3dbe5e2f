"""Findings for people and tools outside the editor: one format a file."""
