"""The page Propose: its form and the list of molecules."""
