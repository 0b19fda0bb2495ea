#!/usr/bin/env python3
"""Runs clang-tidy on the C++ sources that changed: those of the last commit and those not committed.

usage: tidy.py CLANG_TIDY BUILD_FOLDER [FILE...]     FILE: these instead of the changed ones

Ends with 1 when clang-tidy finds something; .clang-tidy says what it looks for.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def git(*words):
    ran = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return ran.stdout.splitlines() if ran.returncode == 0 else []


def changed_sources():
    since = "HEAD~1" if git("rev-parse", "HEAD~1") else "HEAD"
    names = git("diff", "--name-only", since) + git("ls-files", "-o", "--exclude-standard")
    return sorted({name for name in names if name.endswith(".cpp") and (ROOT / name).is_file()})


def commands_for_clang(build, folder):
    """The compiler's commands without gcc's precompiled headers."""
    commands = json.loads((build / "compile_commands.json").read_text())
    for entry in commands:
        entry["command"] = re.sub(r"-include \S+cmake_pch\.hxx|-Winvalid-pch|-fpch-preprocess", "",
                                  entry["command"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(commands))
    return {str(pathlib.Path(entry["file"]).relative_to(ROOT)) for entry in commands
            if pathlib.Path(entry["file"]).is_relative_to(ROOT)}


def main():
    tidy, build, files = sys.argv[1], ROOT / sys.argv[2], sys.argv[3:]
    folder = ROOT / ".cache/tidy"
    known = commands_for_clang(build, folder)
    files = [name for name in files or changed_sources() if name in known]

    def check(name):
        ran = subprocess.run([tidy, "-p", folder, "--quiet", name], cwd=ROOT, capture_output=True,
                             text=True)
        return name, ran.returncode, ran.stdout

    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, status, text in pool.map(check, files):
            wrong += status != 0
            if status:
                print(text.replace(f"{ROOT}/", ""), end="")
    print(f"tidy: {len(files)} changed sources, {wrong} with findings")
    return 1 if wrong else 0


sys.exit(main())
