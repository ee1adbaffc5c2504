"""What a page hears without asking: progress, answers, what was said elsewhere, who has the pen."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from appl.labelling.corrections import in_force
from appl.studio.desk import Desk
from appl.studio.seats import Seats

LOOKS_EVERY_S = 0.1
SPEAKS_EVERY_S = 5.0  # at least, so that a page notices when nobody is there any more


def status(desk: Desk, seats: Seats, page_id: str) -> dict[str, Any]:
    """Return how things are, for one page."""
    session, job = desk.session, desk.jobs.now
    return {
        "said_version": desk.said_version,
        "answer": desk.answers[-1].number if desk.answers else 0,
        "n_said": len({c.image for c in in_force(desk.corrections)}),
        "has_news": bool(session and session.has_news and session.corrections),
        "can_answer": bool(session and session.can_answer),
        "has_pictures": desk.pictures.are_there,
        "job": asdict(job) if job else None,
        "message": desk.jobs.message,
        "has_failed": desk.jobs.has_failed,
        "pen": "process" if not desk.can_write else _pen(seats, page_id),
    }


async def events(request: Request) -> Response:
    """Speak to a page as long as it listens."""
    desk, seats = request.app.state.desk, request.app.state.seats
    page_id = request.query_params.get("page", "")
    if not seats.has(page_id):
        return Response(status_code=403)
    return StreamingResponse(
        _stream(desk, seats, page_id),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


async def _stream(desk: Desk, seats: Seats, page_id: str) -> AsyncIterator[str]:
    seats.open_stream(page_id)
    last, silent_s = "", 0.0
    try:
        while not desk.is_closing:
            now = json.dumps(status(desk, seats, page_id))
            if now != last or silent_s >= SPEAKS_EVERY_S:
                yield f"data: {now}\n\n"
                last, silent_s = now, 0.0
            await asyncio.sleep(LOOKS_EVERY_S)
            silent_s += LOOKS_EVERY_S
    finally:
        seats.close_stream(page_id)


def _pen(seats: Seats, page_id: str) -> str:
    return "here" if seats.writer_for(page_id) == page_id else "tab"


ROUTES = [Route("/events", events)]
