"""Makes a C header of a text file: embed.py FILE HEADER NAME gives `static const char NAME[]`."""

import sys
from pathlib import Path

source, header, name = sys.argv[1:]
data = Path(source).read_bytes() + b"\0"
lines = [", ".join(map(str, data[i : i + 32])) for i in range(0, len(data), 32)]
body = ",\n    ".join(lines)
Path(header).write_text(f"static const char {name}[] = {{\n    {body}}};\n")
