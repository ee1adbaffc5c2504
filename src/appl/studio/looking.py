"""What a page asks: the pile, one image, its pictures, what is like it, groups, the map."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from appl.errors import ApplError
from appl.labelling.asking import explain_image
from appl.studio.columns import pile_columns
from appl.studio.desk import Desk
from appl.studio.image_map import place_images

MOST_SIMILAR = 2000
MOST_ASKED = 200


async def pile(request: Request) -> Response:
    """Give all columns."""
    return JSONResponse(await run_in_threadpool(pile_columns, _desk(request)))


async def image(request: Request) -> Response:
    """Give what is known of one image."""
    return JSONResponse(await run_in_threadpool(_facts, _desk(request), _number(request)))


async def like(request: Request) -> Response:
    """Give the numbers of the images that look most like one."""
    desk, number = _desk(request), _number(request)
    return JSONResponse({"images": await run_in_threadpool(desk.similar, number, MOST_SIMILAR)})


async def ask(request: Request) -> Response:
    """Give what to teach next."""
    text = request.query_params.get("n", "30")
    n = min(int(text), MOST_ASKED) if text.isdecimal() and len(text) < 6 else 30
    return JSONResponse({"images": await run_in_threadpool(_desk(request).teach_next, max(n, 1))})


async def groups(request: Request) -> Response:
    """Give the pile in groups of images that look alike."""
    return JSONResponse({"groups": await run_in_threadpool(_desk(request).groups)})


async def places(request: Request) -> Response:
    """Give the map: two numbers in 0–10,000 for every image, −1 where it has no place."""
    desk = _desk(request)

    def find() -> list[int]:
        vectors = desk.described()
        if vectors is None:
            raise ApplError("the images are not ready yet; wait for the bar")
        placed = place_images(vectors.pile)
        scaled = placed.mul(10_000).round().where(placed >= 0, placed.new_tensor(-1.0))
        flat: list[int] = scaled.int().flatten().tolist()
        return flat

    return JSONResponse({"places": await run_in_threadpool(find)})


async def picture(request: Request) -> Response:
    """Give a picture of the pile or of an example, small or large."""
    kind, size = request.path_params["kind"], request.path_params["size"]
    pictures = _desk(request).pictures
    if kind not in ("pile", "example") or size not in ("small", "large"):
        return Response(status_code=404)
    find = pictures.small if size == "small" else pictures.large
    jpeg = await run_in_threadpool(find, kind, _number(request))
    if not jpeg:
        return Response(status_code=404)
    # One process serves one run, and its address is new each time: pictures may be kept.
    return Response(
        jpeg, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"}
    )


def _facts(desk: Desk, number: int) -> dict[str, Any]:
    inputs = desk.inputs
    if not 0 <= number < len(inputs.pile):
        raise ApplError(f"the pile has no image {number}")
    found: dict[str, Any] = {
        "number": number,
        "name": inputs.name(inputs.pile[number]),
        "answers": [
            {
                "number": a.number,
                "kind": a.kind,
                "label": a.name(number),
                "sure": round(float(a.confidence[number]), 4),
            }
            for a in desk.answers
        ],
        "said": [
            {"at": c.at, "who": c.who, "kind": c.kind, "class": c.class_name, "was": c.was}
            for c in desk.corrections
            if c.image == number
        ],
        "classes": [],
        "nearest": [],
        "problem": "",
    }
    if desk.session is None:
        return found
    try:
        why = explain_image(desk.session, number)
    except ApplError as error:
        return found | {"problem": str(error)}
    pile_places = desk.pile_places
    example_places = {inputs.name(path): i for i, path in enumerate(inputs.support)}
    nearest = []
    for name, class_name, distance in why.nearest:
        kind = "example" if name in example_places else "pile"
        place = example_places.get(name, pile_places.get(name, -1))
        if (kind, place) == ("pile", number):
            continue
        nearest.append({"kind": kind, "number": place, "class": class_name, "distance": distance})
    return found | {"classes": why.classes[:5], "nearest": nearest}


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def _number(request: Request) -> int:
    number: int = request.path_params["number"]
    return number


ROUTES = [
    Route("/api/pile", pile),
    Route("/api/image/{number:int}", image),
    Route("/api/like/{number:int}", like),
    Route("/api/next", ask),
    Route("/api/groups", groups),
    Route("/api/map", places),
    Route("/pictures/{kind}/{number:int}/{size}", picture),
]
