"""The statements of a diagnosis: their words are those of sentences.toml.

tests/diagnosis/test_sentences.py compares the fields of every sentence with where it is used.
"""

from colltool.base.statements import Statement


def statement(code: str, **fields: object) -> Statement:
    """What a diagnosis says: a code of sentences.toml and the fields of its sentence."""
    return Statement("colltool.diagnosis", code, tuple(fields.items()))
