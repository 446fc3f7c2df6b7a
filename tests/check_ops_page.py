#!/usr/bin/env python3
"""Compares docs/ops.md with what the command prints: check_ops_page.py PAGE COMMAND"""
import difflib
import subprocess
import sys


def main():
    page, command = sys.argv[1:]
    made = subprocess.run([command, "ops", "--markdown"], check=True, capture_output=True, text=True).stdout
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for line in difflib.unified_diff(text.splitlines(), made.splitlines(), "docs/ops.md", "made", n=1, lineterm=""):
        print(line)
    if text != made:
        sys.exit("docs/ops.md is out of date: tenon ops --markdown > docs/ops.md")


if __name__ == "__main__":
    main()
