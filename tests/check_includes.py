"""Checks who includes whom: the folders form layers, and data flows through them in one direction.

check_includes.py SOURCE_ROOT
"""

import re
import sys
from pathlib import Path

# Folder: what its files may include of Tenon's own. "." stands for a bare name, in the same folder.
MAY_INCLUDE = {
    "include/tenon": {"tenon"},
    "src/core": {"tenon", "core"},
    "src/load": {"tenon", "core", "load"},
    "fusion": {"tenon", "core", "fusion"},
    "kernels": {"tenon", "core", "kernels"},
    "partitions": {"tenon", "core", "partitions"},
    "src/run": {"tenon", "core", "load", "fusion", "kernels", "partitions", "run"},
    "src/profiler": {"tenon", "core", "load", "partitions", "run", "profiler"},
    "src/batch": {"tenon", "."},
    "src/cli": {"tenon", ".", "bench", "batch"},
    "bench": {"tenon", "."},
    "examples": {"tenon", "."},
}
FOLDERS = {name for names in MAY_INCLUDE.values() for name in names} | {"cli"}
ONEDNN = ("oneapi", "dnnl")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def broken_rules(root, folder, allowed):
    for path in sorted((root / folder).rglob("*")):
        if path.suffix not in (".c", ".h", ".cpp", ".def"):
            continue
        for quote, included in INCLUDE.findall(path.read_text()):
            first = included.split("/")[0]
            if first.startswith(ONEDNN):
                fine = folder == "partitions"
            elif "/" not in included and quote == '"':
                fine = "." in allowed
            else:
                fine = first not in FOLDERS or first in allowed
            if not fine:
                yield f"{path.relative_to(root)} includes {included}"


def main():
    root = Path(sys.argv[1])
    files = sum(1 for folder in MAY_INCLUDE for _ in (root / folder).rglob("*.[ch]"))
    broken = [
        line
        for folder, allowed in MAY_INCLUDE.items()
        for line in broken_rules(root, folder, allowed)
    ]
    print(f"{files} files", *broken, sep="\n")
    return 1 if broken or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
