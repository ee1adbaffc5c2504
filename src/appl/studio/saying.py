"""What a page says: classes of images, undo, teach, adapt, cancel; one page at a time may."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from appl.errors import ApplError
from appl.studio.columns import said_column
from appl.studio.desk import Desk
from appl.studio.guard import TOKEN
from appl.studio.seats import Seats


async def correct(request: Request) -> Response:
    """Take a word on images: a class, none of the classes, accepted, passed over."""
    desk = _desk(request)
    if refused := _without_pen(request):
        return refused
    body = await _body(request)
    images = body.get("images")
    if not isinstance(images, list) or not images or not all(type(i) is int for i in images):
        raise ApplError("no images were named")
    how, name = body.get("how"), body.get("class", "")
    if how == "class" and isinstance(name, str) and name.strip():
        n = await run_in_threadpool(desk.correct, images, name)
    elif how == "none":
        n = await run_in_threadpool(desk.correct, images, "")
    elif how == "accept":
        n = await run_in_threadpool(desk.accept, images)
    elif how == "skip":
        await run_in_threadpool(desk.skip, images)
        n = len(images)
    else:
        raise ApplError("say a class, none, accept or skip")
    return _said(desk, n=n)


async def undo(request: Request) -> Response:
    """Take back what was said last."""
    if refused := _without_pen(request):
        return refused
    await _body(request)
    return _said(_desk(request), images=await run_in_threadpool(_desk(request).undo))


async def redo(request: Request) -> Response:
    """Say again what was taken back last."""
    if refused := _without_pen(request):
        return refused
    await _body(request)
    return _said(_desk(request), images=await run_in_threadpool(_desk(request).redo))


async def work(request: Request) -> Response:
    """Start to answer anew or to adapt, or cancel what is running."""
    if refused := _without_pen(request):
        return refused
    await _body(request)
    desk, what = _desk(request), request.path_params["what"]
    if what == "cancel":
        desk.jobs.cancel()
    elif what in ("teach", "adapt"):
        if not (desk.teach() if what == "teach" else desk.adapt()):
            return JSONResponse({"error": "something else is running; cancel it, or wait"}, 409)
    else:
        return Response(status_code=404)
    return JSONResponse({"version": desk.version})


async def take_pen(request: Request) -> Response:
    """Let this page be the one that writes."""
    await _body(request)
    seats: Seats = request.app.state.seats
    page = seats.by_token(request.headers.get(TOKEN, ""))
    if page is not None:
        seats.take(page.id)
    _desk(request).version += 1
    return JSONResponse({})


def _said(desk: Desk, **more: Any) -> Response:
    names = [{"name": name} for name in desk.class_names]
    said = said_column(desk)
    return JSONResponse({"version": desk.said_version, "said": said, "names": names, **more})


def _without_pen(request: Request) -> Response | None:
    """Refuse a page that may only look."""
    seats: Seats = request.app.state.seats
    page = seats.by_token(request.headers.get(TOKEN, ""))
    if page is not None and seats.writer_for(page.id) == page.id:
        return None
    return JSONResponse({"error": "another tab works on this run; this one only looks"}, 409)


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except (ValueError, ClientDisconnect, RecursionError) as error:
        raise ApplError("the request is no JSON") from error
    if not isinstance(body, dict):
        raise ApplError("the request is no JSON object")
    return body


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


ROUTES = [
    Route("/api/correct", correct, methods=["POST"]),
    Route("/api/undo", undo, methods=["POST"]),
    Route("/api/redo", redo, methods=["POST"]),
    Route("/api/pen", take_pen, methods=["POST"]),
    Route("/api/work/{what}", work, methods=["POST"]),
]
