"""Files that the deploys write on a host, rendered from `templates/`."""

from __future__ import annotations

import posixpath
import shlex
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_HERE = Path(__file__).resolve().parent


def folder() -> Path:
    """A wheel carries the templates inside the package; a checkout has them at its top level."""
    return next(path for path in (_HERE / "templates", _HERE.parent.parent / "templates") if path.is_dir())


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    # Every value in a script is quoted; paths are those of a POSIX host, whatever the control side is.
    environment.filters.update(quote=shlex.quote, dirname=posixpath.dirname)
    return environment


def render(name: str, **data: Any) -> str:
    """The text of templates/NAME. Errors: jinja2.UndefinedError when it uses a value that is not given."""
    return _environment().get_template(name).render(**data)
