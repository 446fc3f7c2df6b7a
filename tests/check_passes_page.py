"""Does what docs/passes.md tells a newcomer to do: compiles its first pass, in both forms, and compares what it prints. Its
table of passes must be that of the command.

usage: check_passes_page.py PAGE TENON INCLUDE LIBRARY_FOLDER CC..."""

import pathlib
import re
import subprocess
import sys
import tempfile


def main():
    page, tenon, include, library, *cc = sys.argv[1:]
    text = pathlib.Path(page).read_text()
    first, again = re.findall(r"```c\n(.*?)```", text, re.DOTALL)[:2]
    graph = re.search(r"```\n(graph net .*?)```", text, re.DOTALL).group(1)
    shown = re.search(r"passes net.txt --pass-plugin ./softer.so\n(.*?)    \$ ", text, re.DOTALL).group(1)
    expected = [line[4:] for line in shown.splitlines()]
    listed = re.findall(r"^ +\d+  (\w+) |^ +-  (\w+) ", subprocess.run([tenon, "passes"], capture_output=True, text=True,
                                                                        check=True).stdout, re.MULTILINE)
    listed = {a or b for a, b in listed} | {"bf16"}
    told = {name for row in re.findall(r"^\| ([\w, ]+) \| [\w*]+\.c \|", text, re.MULTILINE) for name in row.split(", ")}
    if listed != told:
        sys.exit(f"the page's table and the command differ in {sorted(listed ^ told)}")
    run = re.search(r"static tenon_status run\(.*?\n}\n", first, re.DOTALL).group(0)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "net.txt").write_text(graph)
        for name, source in [("softer", first), ("pattern", first.replace(run, again))]:
            (folder / f"{name}.c").write_text(source)
            subprocess.run([*cc, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"{name}.c", f"-I{include}",
                            f"-L{library}", "-ltenon", "-o", f"{name}.so"], cwd=folder, check=True)
            done = subprocess.run([tenon, "passes", "net.txt", "--pass-plugin", f"./{name}.so"], cwd=folder,
                                  capture_output=True, text=True, check=True)
            got = (done.stdout + done.stderr).splitlines()
            # A pattern's replacement keeps the name of what it replaces.
            want = [line.replace("%softplus", "%a") for line in expected] if name == "pattern" else expected
            if got != want:
                sys.exit(f"{name}:\n" + "\n".join(got) + "\nis not\n" + "\n".join(want))
            subprocess.run([tenon, "run", "net.txt", "--random", "1", "--pass-plugin", f"./{name}.so"], cwd=folder,
                           check=True, stdout=subprocess.DEVNULL)


main()
