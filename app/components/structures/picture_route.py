"""The route of the server that draws the small picture of a structure.

It is imported before Streamlit's runtime exists, and therefore uses nothing that Streamlit caches.
"""

from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.visitors import sender_of
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.database import Database
from bandgap.jobs.home import open_home, shapes_path
from bandgap.jobs.people import may_open_dataset
from bandgap.plots.thumbnails import thumbnail
from bandgap.structures.shapes import load_shape

FOLDER = "pictures"  # of the addresses
HEADERS = {
    # The address has the time of the last change of the data set.
    "Cache-Control": "private, max-age=604800, immutable",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

database_at = cache(Database)


def picture(request: Request) -> Response:
    """Return the picture of a row of a data set, drawn for this request.

    It needs access to the workspace of the data set.
    """
    try:
        home = open_home()
        dataset = request.path_params["dataset"]
        if not may_open_dataset(database_at(home.database), dataset, sender_of(request)):
            return Response(status_code=404)
        path = shapes_path(home, dataset)
        shape = load_shape(path, int(request.path_params["row"]))
    except BandgapError:
        shape = None
    if shape is None:
        return Response(status_code=404)
    return Response(thumbnail(shape), media_type="image/svg+xml", headers=HEADERS)


ROUTE = Route(f"/{FOLDER}/{{dataset:str}}/{{row:int}}.svg", picture)
