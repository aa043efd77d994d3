"""The dashboard of bandgap: pages in `views/`, their parts in `components/`, and the web server."""
