"""Documents as JSON text."""

from __future__ import annotations

import json

from colltool.render.escape import json_text
from colltool.render.view import Document


def to_json(content: Document) -> str:
    """Indented by two, fields in the promised order, numbers at full precision, a newline at the end; always valid UTF-8."""
    return json_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"
