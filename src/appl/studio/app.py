"""The web application: the page, its files, and the routes, behind the guard."""

from collections.abc import Collection
from importlib import resources
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from appl._version import __version__
from appl.errors import ApplError
from appl.report.rendering import render_template
from appl.studio import events, looking, saying
from appl.studio.desk import Desk
from appl.studio.guard import Guard
from appl.studio.seats import Seats

TEMPLATES = Path(__file__).parent / "templates"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
THEME = "theme.css"


def make_app(desk: Desk, *, hosts: Collection[str] | None, key: str = "") -> Starlette:
    """Return the application for a run on the desk; `hosts` and `key` are the guard's."""
    seats = Seats()
    app = Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name}", static),
            *looking.ROUTES,
            *saying.ROUTES,
            *events.ROUTES,
        ],
        middleware=[Middleware(Guard, seats=seats, hosts=hosts, key=key)],
        exception_handlers={ApplError: say_error},
    )
    app.state.desk, app.state.seats, app.state.static = desk, seats, static_files()
    return app


async def page(request: Request) -> Response:
    """Hand out the page, with a token of its own."""
    handed_out = request.app.state.seats.hand_out()
    text = render_template(
        "studio.html.j2",
        templates=TEMPLATES,
        page_id=handed_out.id,
        token=handed_out.token,
        run_name=request.app.state.desk.folder.resolve().name,
        version=__version__,
    )
    return HTMLResponse(text.encode("utf-8", "backslashreplace"))


async def static(request: Request) -> Response:
    """Give a script or a style by its name: one of a list, so that no path leads elsewhere."""
    name = request.path_params["name"]
    content = request.app.state.static.get(name)
    if content is None:
        return Response(status_code=404)
    return Response(content, media_type=TYPES[Path(name).suffix])


def static_files() -> dict[str, bytes]:
    """Read all scripts and styles of the package."""
    folder = resources.files("appl.studio").joinpath("static")
    found = {
        place.name: place.read_bytes()
        for place in folder.iterdir()
        if Path(place.name).suffix in TYPES
    }
    return found | {THEME: render_template("theme.css.j2", templates=TEMPLATES).encode()}


async def say_error(_request: Request, error: Exception) -> Response:
    """Turn a mistake into one line."""
    return JSONResponse({"error": str(error)}, 400)
