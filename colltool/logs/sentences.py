"""The statements of log readers: their words are those of sentences.toml."""

from colltool.base.statements import Statement


def statement(code: str, **fields: object) -> Statement:
    """What a reader says of a log: a code of sentences.toml and the fields of its sentence."""
    return Statement("colltool.logs", code, tuple(fields.items()))
