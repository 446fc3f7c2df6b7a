#!/usr/bin/env python3
"""Each row of docs/reliability.md names tests that exist: check_reliability_page.py ROOT"""
import pathlib
import re
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    page = (root / "docs/reliability.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    if len(rows) < 20:
        sys.exit(f"the page has {len(rows)} promises")
    wrong = []
    for row in rows:
        tests = row.split("|")[2]
        named = re.findall(r"`([\w./]+)`(?:: ((?:`[\w ]+`(?:, )?)+))?", tests)
        if not named:
            wrong.append(f"no test: {row}")
        for path, names in named:
            file = root / path
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            for name in re.findall(r"\w+", names):
                if not re.search(rf"\b{name}\b", text):
                    wrong.append(f"{path} has no {name}")
            if not text:
                wrong.append(f"there is no {path}")
    if wrong:
        sys.exit("docs/reliability.md: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
