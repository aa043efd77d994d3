"""Workspaces: those that the browser remembers, the list on Home, and unknown addresses."""
