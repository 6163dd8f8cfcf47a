"""The table of rooms in .github/CONTRIBUTING.md: from the floors and the packages' first lines.

python tests/rooms.py --write     write the table into CONTRIBUTING.md
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from test_layers import FLOORS, PACKAGE

CONTRIBUTING = PACKAGE.parent / ".github" / "CONTRIBUTING.md"
TABLE = re.compile(r"<!-- rooms -->\n.*?<!-- /rooms -->", re.DOTALL)


def first_line(package: Path) -> str:
    """The first paragraph of a package's docstring, on one line."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    text = (ast.get_docstring(tree) or "").partition("\n\n")[0]
    return " ".join(text.split())


def table() -> str:
    """Every room with its floor and what it is for, lowest first."""
    rows = ["| floor | room | what it is for |", "|---|---|---|"]
    by_floor = sorted(FLOORS.items(), key=lambda item: (item[1], item[0]))
    for name, floor in by_floor:
        package = PACKAGE.parent / name.replace(".", "/")
        if name == "colltool" or not (package / "__init__.py").exists():
            continue
        room = name.removeprefix("colltool.").replace(".", "/")
        rows.append(f"| {floor} | `{room}` | {first_line(package)} |")
        if room == "extras":
            for part in sorted(package.iterdir()):
                if (part / "__init__.py").exists():
                    rows.append(f"| {floor} | `extras/{part.name}` | {first_line(part)} |")
    return "\n".join(rows)


def written(text: str) -> str:
    """The page with the table as it is now."""
    return TABLE.sub(lambda _: f"<!-- rooms -->\n{table()}\n<!-- /rooms -->", text)


if __name__ == "__main__":
    text = CONTRIBUTING.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--write"]:
        CONTRIBUTING.write_text(written(text), encoding="utf-8")
    else:
        print(table())
