"""Workspaces: the list on Home, links to them, and unknown addresses."""
