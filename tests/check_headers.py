"""Checks that each public header compiles alone, as pedantic C11 and as C++17.

check_headers.py INCLUDE_FOLDER C_COMPILER... -- CPP_COMPILER...
"""

import subprocess
import sys
from pathlib import Path

STRICT = ["-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def main():
    folder, *compilers = sys.argv[1:]
    split = compilers.index("--")
    languages = {
        "C11": [*compilers[:split], "-std=c11", "-xc"],
        "C++17": [*compilers[split + 1 :], "-std=c++17", "-xc++"],
    }
    headers = sorted(Path(folder, "tenon").glob("*.h"))
    failures = 0
    for header in headers:
        # Included twice from a source of its own, so that a missing guard shows too.
        source = f"#include <tenon/{header.name}>\n" * 2 + "int unused;\n"
        for language, command in languages.items():
            result = subprocess.run(
                [*command, *STRICT, f"-I{folder}", "-"], input=source, text=True
            )
            if result.returncode:
                print(f"{header.name} does not compile alone as {language}")
                failures += 1
    print(f"{len(headers)} headers")
    return 1 if failures or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
