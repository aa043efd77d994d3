"""The HTTP interface of the service (FastAPI): addresses, bodies, limits and refusals."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.middleware.trustedhost import TrustedHostMiddleware

import bandgap
from bandgap.foundation.errors import BandgapError, printable, quoted
from bandgap.jobs.service.batching import Batcher, PendingRequest
from bandgap.jobs.service.description import ABOUT, BODY, documentation_page
from bandgap.jobs.service.limits import Refusal, ServiceLimits
from bandgap.jobs.service.models import ServedModel
from bandgap.jobs.service.requests import (
    BASELINE,
    OPTIONS,
    PredictionRequest,
    RequestOptions,
    body_file_name,
    file_name,
    request_from_files,
    request_from_json,
)
from bandgap.jobs.service.responses import (
    ErrorResponse,
    Health,
    Models,
    PredictionResponse,
    Version,
)
from bandgap.jobs.service.tokens import has_access, is_from, named_person
from bandgap.predictions.table import ZERO_END_NOTE

QUERY_NAMES = (*OPTIONS, "name", BASELINE)  # of POST /predict
_LOG = logging.getLogger(__name__)
READERS = 2  # threads that read structures while the batcher computes
_REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorResponse, "description": text}
    for code, text in {
        400: "The body cannot be read.",
        401: "The token is missing or wrong.",
        404: "There is no such model.",
        405: "The address does not accept this method; the header Allow names the accepted one.",
        408: "The body did not arrive in time.",
        413: "The body or the number of structures is over the limit.",
        422: "The request makes no sense, or no structure could be used: the rows then say why.",
        429: "Busy; try again after the seconds of Retry-After.",
        503: "The answer took too long.",
    }.items()
}


class _RequestCounter:
    """Counts the requests that are not answered yet; over the limit, the code is 429."""

    def __init__(self, max_waiting: int) -> None:
        self.count = 0
        self._max_waiting = max_waiting

    @contextlib.contextmanager
    def counted(self) -> Any:
        if self.count >= self._max_waiting:
            raise Refusal(429, f"Busy with {self.count} requests. Try again in a second.")
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


def build_app(
    models: Mapping[str, ServedModel],
    *,
    token: str | None,
    user_header: str = "",
    trusted_proxy: str = "",
    limits: ServiceLimits,
    hosts: tuple[str, ...] = ("*",),
) -> FastAPI:
    """Return the application; `hosts` are the names by which clients may call it.

    Those have access who send the token, or whom the proxy names; without both, everyone.
    """
    batcher = Batcher(models, max_structures=limits.max_structures)
    readers = ThreadPoolExecutor(READERS, thread_name_prefix="bandgap-reader")
    counter = _RequestCounter(limits.max_waiting)

    @contextlib.asynccontextmanager
    async def alive(app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        readers.shutdown()
        batcher.stop()

    app = FastAPI(
        title="bandgap",
        version=bandgap.__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=alive,
        exception_handlers=_HANDLERS,
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))

    def let_in(request: Request) -> None:
        if user_header and is_from(request, trusted_proxy) and named_person(request, user_header):
            return
        if user_header and token is None:
            raise Refusal(401, "The proxy has not named you. Log in there again.")
        if not has_access(request.headers.get("authorization"), token):
            raise Refusal(
                401, "The token is missing or wrong. Send the header Authorization: Bearer TOKEN."
            )

    @app.get("/health")
    async def health() -> Health:
        """Return the state of the service. Needs no token."""
        counts = batcher.counts
        return Health(
            status="ok", waiting=counter.count, requests=counts.requests, batches=counts.batches
        )

    @app.get("/version")
    async def version() -> Version:
        """Return the version of the package. Needs no token."""
        return Version(bandgap=bandgap.__version__)

    @app.get("/models", response_model=Models, responses={401: _REFUSALS[401]})
    async def list_models(request: Request) -> JSONResponse:
        """List the models, the default one first: method, level of theory, intervals, date."""
        let_in(request)
        _check_query(request, accepted=())
        return JSONResponse({"models": [model.facts() for model in models.values()]})

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(documentation_page(app.openapi()))

    @app.post(
        "/predict",
        response_model=PredictionResponse,
        responses=_REFUSALS,
        openapi_extra={"requestBody": BODY},
    )
    async def predict(
        request: Request,
        options: Annotated[RequestOptions, Depends()],
        name: Annotated[
            str, Query(description="Of a bare body: its file's name, such as benzene.cif.")
        ] = "",
        baseline_eV: Annotated[
            str,
            Query(
                description="Of files, for a model with a baseline: one number a "
                "structure, commas between."
            ),
        ] = "",
    ) -> JSONResponse:
        """Predict the gaps of structures: one row each, in order, with the reason if refused."""
        let_in(request)
        _check_query(request, accepted=QUERY_NAMES)
        pending: PendingRequest | None = None
        abandoned = threading.Event()
        with counter.counted():
            try:
                async with asyncio.timeout(limits.seconds):
                    read = await _reading(
                        request, options, name=name, baselines=baseline_eV, limits=limits
                    )
                    async with _while_connected(request):
                        prediction_request = await asyncio.get_running_loop().run_in_executor(
                            readers, partial(read, abandoned=abandoned)
                        )
                        pending = batcher.submit(prediction_request)
                        rows = await asyncio.wrap_future(pending.rows)
            except TimeoutError:
                raise Refusal(
                    503,
                    f"No answer within {limits.seconds:g} s. Send fewer structures at "
                    "once, or try again later.",
                ) from None
            finally:
                abandoned.set()
                if pending is not None:
                    pending.abandoned = True
        assert pending is not None  # as there are rows
        if all(row["status"] == "refused" for row in rows):
            count = "The structure" if len(rows) == 1 else f"None of {len(rows)} structures"
            verb = "cannot" if len(rows) == 1 else "can"
            return _refused(422, f"{count} {verb} be used: {rows[0]['problem']}", rows=rows)
        notes = [*pending.model.notes, ZERO_END_NOTE]
        return JSONResponse({"model": pending.model.name, "rows": rows, "notes": notes})

    return app


@contextlib.asynccontextmanager
async def _while_connected(request: Request) -> AsyncIterator[None]:
    """End the work inside, with a Refusal that nobody receives, once the client has gone."""
    work = asyncio.current_task()
    assert work is not None  # as this is a coroutine
    has_gone = False

    async def watch() -> None:
        nonlocal has_gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        has_gone = True
        work.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not has_gone:
            raise
        work.uncancel()
        raise Refusal(499, "The client has closed the connection.") from None
    finally:
        watcher.cancel()


def _check_query(request: Request, *, accepted: Sequence[str]) -> None:
    """Raise Refusal for a name in the address that is not accepted, or given twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    accepted_text = f"Accepted: {', '.join(accepted)}." if accepted else "None is accepted."
    for name in names:
        if name not in accepted:
            raise Refusal(422, f"The address has the name {quoted(name)}. {accepted_text}")
        if names.count(name) > 1:
            raise Refusal(422, f"The address has {name} {names.count(name)} times. Give it once.")


async def _reading(
    request: Request, options: RequestOptions, *, name: str, baselines: str, limits: ServiceLimits
) -> Callable[..., PredictionRequest]:
    """Receive the body and return a function that reads it, until its argument `abandoned` is set.

    Raises Refusal over the limits.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "multipart/form-data":
        files = await _uploads(request, limits)
        return partial(request_from_files, files, options, baselines=baselines, limits=limits)
    body = b"".join([chunk async for chunk in _within_limits(request, limits)])
    if content_type == "application/json" or content_type.endswith("+json"):
        return partial(
            request_from_json, body, options, name=name, baselines=baselines, limits=limits
        )
    files = [(body_file_name(name, content_type), body)]
    return partial(request_from_files, files, options, baselines=baselines, limits=limits)


async def _within_limits(request: Request, limits: ServiceLimits) -> AsyncGenerator[bytes, None]:
    """Yield the body as it arrives; raises Refusal where it is larger or slower than the limits."""
    over = Refusal(413, f"The body is larger than {limits.max_body_bytes:,} bytes, the limit.")
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limits.max_body_bytes:
        raise over
    size = 0
    try:
        async with asyncio.timeout(limits.seconds / 2):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limits.max_body_bytes:
                    raise over
                yield chunk
    except TimeoutError:
        raise Refusal(408, f"The body did not arrive within {limits.seconds / 2:g} s.") from None


class _CompleteUpload(MultiPartParser):
    """A parser that refuses an upload without its closing boundary.

    starlette's parser silently leaves out the last file of such an upload.
    """

    def __init__(self, request: Request, limits: ServiceLimits) -> None:
        most = {"max_files": limits.max_structures, "max_fields": 10}
        super().__init__(request.headers, self._to_its_end(_within_limits(request, limits)), **most)
        self._has_ended = False

    def on_end(self) -> None:
        self._has_ended = True

    async def _to_its_end(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            yield chunk
        if not self._has_ended:
            raise MultiPartException("it is cut off, as its closing boundary is missing")


async def _uploads(request: Request, limits: ServiceLimits) -> list[tuple[str, bytes]]:
    try:
        form = await _CompleteUpload(request, limits).parse()
    except (MultiPartException, KeyError, ValueError) as error:
        reason = "its parts do not fit its boundary and charset"
        if isinstance(error, MultiPartException):
            reason = error.message
        raise Refusal(400, f"The upload cannot be read: {printable(reason).rstrip('.')}.") from None
    try:
        return [
            await _upload(number, part)
            for number, (_, part) in enumerate(form.multi_items(), start=1)
        ]
    finally:
        await form.close()


async def _upload(number: int, part: UploadFile | str) -> tuple[str, bytes]:
    if isinstance(part, str):
        raise Refusal(
            422,
            "The upload holds a field that is no file. Put model, level and "
            "interval into the address.",
        )
    return file_name(part.filename or "", default=f"structure-{number}"), await part.read()


def _of_address(request: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return _refused(422, f"{printable(where)}: {printable(str(first['msg']))}.")


def _of_path(request: Request, error: Any) -> JSONResponse:
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        answer = _refused(
            405,
            f"{printable(request.url.path)} does not accept {printable(request.method)}."
            f" Accepted: {allowed}.",
        )
        answer.headers["Allow"] = allowed
        return answer
    return _refused(
        error.status_code,
        f"There is no {request.method} of this address. GET /docs lists what there is.",
    )


def _refused(code: int, message: str, **more: Any) -> JSONResponse:
    headers = {429: {"Retry-After": "1"}, 401: {"WWW-Authenticate": "Bearer"}}.get(code)
    return JSONResponse({"detail": message, **more}, status_code=code, headers=headers)


# All refusals and errors have the same form, a code and a message, without a traceback.
_HANDLERS: dict[Any, Callable[[Request, Any], Any]] = {
    Refusal: lambda request, error: _refused(error.code, error.message),
    BandgapError: lambda request, error: _refused(422, str(error)),
    RequestValidationError: _of_address,
    HTTPException: _of_path,
    Exception: lambda request, error: _refused(
        500,
        "An error inside the service, which its log describes. Other requests are not touched.",
    ),
}
