"""Parts of several pages: frame, job panel, tables, uploads, files of runs, figures and texts."""
