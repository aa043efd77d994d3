"""What several pages share: frame, job panel, tables, uploads, runs as files, figures and words."""
