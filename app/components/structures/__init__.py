"""The viewer of structures in three dimensions, and small pictures of structures in tables."""
