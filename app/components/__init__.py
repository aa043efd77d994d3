"""Parts of pages: frame, job panel, tables, plots, words."""
