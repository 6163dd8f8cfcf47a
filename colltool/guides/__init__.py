"""The chapters of the manual: Markdown beside this file, run by the same test as README."""

from __future__ import annotations

from pathlib import Path

from colltool.base.errors import ColltoolError, nearest

# in the order in which a newcomer would read them; each is the name of a file
TOPICS = (
    "questions",
    "model",
    "fabrics",
    "jobs",
    "contention",
    "choices",
    "accuracy",
    "measurements",
    "formats",
    "traces",
    "serving",
    "algorithms",
    "exports",
    "ci",
    "python",
)

_FOLDER = Path(__file__).parent


def read_guide(topic: str) -> str:
    """A chapter as Markdown.

    Raises:
        ColltoolError: no such topic; names the nearest.
    """
    if topic not in TOPICS:
        fix = f"{nearest(topic, list(TOPICS))} topics: {', '.join(TOPICS)}".strip()
        raise ColltoolError(f"no guide '{topic}'", fix=fix)
    return (_FOLDER / f"{topic}.md").read_text(encoding="utf-8")


def about(topic: str) -> str:
    """What a chapter answers: its first paragraph, which follows the title, on one line."""
    _title, paragraph, *_text = read_guide(topic).split("\n\n", 2)
    return paragraph.replace("\n", " ")


def contents() -> str:
    """The topics as Markdown, a line each."""
    lines = [f"- `colltool guide {topic}`: {about(topic)}" for topic in TOPICS]
    return "\n".join(["# Guides", "", *lines, ""])
