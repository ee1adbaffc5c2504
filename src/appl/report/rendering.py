"""Templates to pages: every value is escaped, a missing one is an error."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from appl.report.palette import MARKS, PALETTE
from appl.report.words import breakable

TEMPLATES = Path(__file__).parent / "templates"


def render_template(name: str, *, templates: Path = TEMPLATES, **values: object) -> str:
    """Turn a template into HTML; those of another folder may include ours."""
    environment = Environment(
        loader=FileSystemLoader([templates, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    environment.globals |= {"palette": PALETTE, "marks": MARKS}
    return environment.get_template(name).render(**values)
