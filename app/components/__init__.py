"""Parts of the pages: one folder per page, and `shared` for several pages."""
