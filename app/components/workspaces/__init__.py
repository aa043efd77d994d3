"""Workspaces: which this browser knows, the list of them on Home, and an address that names none."""
