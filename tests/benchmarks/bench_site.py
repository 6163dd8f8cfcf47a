"""The site of all shipped machines: ``python tests/benchmarks/bench_site.py [FOLDER]``.

Printed: seconds, how many pages there are, and the largest of them. Goals: 180 s, 300 KB a page.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from colltool.fabric.load import load_fabric, shipped_fabrics
from colltool.render.site import site

MOST_SECONDS = 180
MOST_BYTES = 300_000


def main() -> int:
    started = time.perf_counter()
    files = dict(site([load_fabric(name) for name in shipped_fabrics()]))
    seconds = time.perf_counter() - started
    sizes = {name: len(text.encode()) for name, text in files.items() if name.endswith(".html")}
    largest = max(sizes, key=sizes.__getitem__)
    whole = sum(len(text.encode()) for text in files.values())
    print(
        f"{len(shipped_fabrics())} machines, {len(sizes)} pages, {whole / 1e6:.1f} MB in {seconds:.1f} s"
    )
    print(f"largest page: {largest}, {sizes[largest] / 1e3:.0f} KB")
    for folder in sys.argv[1:]:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return int(seconds > MOST_SECONDS or sizes[largest] > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
