"""The route of the server that draws the small picture of a structure.

It is imported before Streamlit's runtime exists, and therefore uses nothing that Streamlit caches.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bandgap.foundation.errors import BandgapError
from bandgap.jobs.home import open_home, shapes_path
from bandgap.plots.thumbnails import thumbnail
from bandgap.structures.shapes import load_shape

FOLDER = "pictures"  # of the addresses
HEADERS = {
    # The address has the time of the last change of the data set.
    "Cache-Control": "private, max-age=604800, immutable",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


def picture(request: Request) -> Response:
    """Return the picture of a row of a data set, drawn for this request.

    Whoever has the address may see it: the id of a data set is random, as that of a workspace is.
    """
    try:
        path = shapes_path(open_home(), request.path_params["dataset"])
        shape = load_shape(path, int(request.path_params["row"]))
    except BandgapError:
        shape = None
    if shape is None:
        return Response(status_code=404)
    return Response(thumbnail(shape), media_type="image/svg+xml", headers=HEADERS)


ROUTE = Route(f"/{FOLDER}/{{dataset:str}}/{{row:int}}.svg", picture)
