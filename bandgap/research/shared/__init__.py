"""What several research methods share."""
