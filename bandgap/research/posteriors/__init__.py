"""What research methods return, one file for each kind."""
