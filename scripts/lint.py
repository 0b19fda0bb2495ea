#!/usr/bin/env python3
"""Checks what the compiler does not: arrows between rooms, a task's words, plain ASCII, lengths.

The allowed arrows are read from the convoy_room(...) lines of CMakeLists.txt, so they are written
down once. Prints one line per finding (path:line: text) and ends with 1 when there is an error.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = {".h", ".cpp"}
TEXT = CPP | {".py", ".sh", ".md", ".txt", ".cmake", ".toml", ".json", ".in", ""}
MAX_COLUMNS = 100
MAX_LINES = 400
MACHINE_PATHS = ("/" + "work/", ".." + "/shared")
# The Trainer and the program know tasks only by tasks/task.h.
FREE_OF_TASKS = ("convoy/train/", "cli/")
TASK_WORD = re.compile(r"sessions?\b|rankings?\b|recommend|top_?ks?\b|\blengths\b|ndcg|popularity|tokeniz|perplexity"
                       r"|classif|sentinel|language.?(model|task)", re.I)
INCLUDE = re.compile(r'\s*#\s*include\s+([<"])([^>"]+)[>"]')


def read_rooms():
    """Maps each room to (rooms it may include, whether it may use torch, rooms that its line names)."""
    rooms = {}
    text = re.sub(r"#.*", "", (ROOT / "CMakeLists.txt").read_text())
    for body in re.findall(r"convoy_room\(([^)]*)\)", text):
        words = body.split()
        direct, section = [], None
        for word in words[1:]:
            if word in ("TORCH", "LINK", "ROOMS"):
                section = word
            elif section == "ROOMS":
                direct.append(word)
        allowed, torch = {words[0]}, "TORCH" in words
        for below in direct:
            if below not in rooms:
                sys.exit(f"CMakeLists.txt: room {words[0]} names {below}, which is not above it")
            allowed |= rooms[below][0]
        rooms[words[0]] = (allowed, torch, direct)
    return rooms


def list_files():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        sys.exit("lint needs a git checkout: " + listed.stderr.strip())
    paths = (pathlib.Path(line) for line in sorted(set(listed.stdout.splitlines())))
    return [path for path in paths if path.suffix in TEXT and (ROOT / path).is_file()
            and not path.is_relative_to("tests/fuzz/corpus")]


def check_include(room, rooms, quote, target):
    """Returns what is wrong with an include in a file of `room`, or None."""
    allowed, torch, _ = rooms[room]
    parts = target.split("/")
    if parts[0] in ("torch", "ATen", "c10", "caffe2") and not torch:
        return f"room {room} is free of torch, but includes {target}"
    if parts[0] == "convoy":
        if len(parts) < 3:
            return f"a room includes single headers, not {target}"
        if parts[1] not in allowed:
            return f"room {room} may not know room {parts[1]}; CMakeLists.txt has the arrows"
    elif quote == '"':
        return f'write the include as "convoy/<room>/..." or <...>, not "{target}"'
    return None


def check_file(path, rooms):
    """Yields (line number, is error, text)."""
    try:
        lines = (ROOT / path).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        yield 1, True, "is not text in ASCII"
        return
    cpp = path.suffix in CPP
    free_of_tasks = cpp and str(path).startswith(FREE_OF_TASKS)
    room = path.parts[1] if path.parts[0] == "convoy" and len(path.parts) > 2 else None
    if room and room not in rooms:
        yield 1, True, f"room {room} is not declared in CMakeLists.txt"
        return
    for number, line in enumerate(lines, 1):
        if not line.isascii():
            odd = next(c for c in line if not c.isascii())
            yield number, True, f"has U+{ord(odd):04X}; sources and pages are plain ASCII"
        if any(bad in line for bad in MACHINE_PATHS):
            yield number, True, "names a path of one machine"
        if cpp and len(line) > MAX_COLUMNS:
            yield number, True, f"has {len(line)} columns; at most {MAX_COLUMNS}"
        word = TASK_WORD.search(line) if free_of_tasks else None
        if word:
            yield number, True, f"names '{word.group()}', a task's word; tasks say it through tasks/task.h"
        include = INCLUDE.match(line) if room and cpp else None
        if include:
            wrong = check_include(room, rooms, *include.groups())
            if wrong:
                yield number, True, wrong
    if path.suffix == ".h" and not any(line.strip() == "#pragma once" for line in lines):
        yield 1, True, "lacks #pragma once"
    if cpp and len(lines) > MAX_LINES:
        yield len(lines), False, f"warning: {len(lines)} lines; a file is one idea (about 300 lines)"


def unused_arrows(rooms, files):
    """Yields what is wrong with arrows that no include uses."""
    used = set()
    for path in files:
        if path.suffix in CPP and path.parts[0] == "convoy" and len(path.parts) > 2:
            targets = (INCLUDE.match(line) for line in (ROOT / path).read_text().split("\n"))
            used |= {(path.parts[1], match[2].split("/")[1]) for match in targets
                     if match and match[2].startswith("convoy/")}
    for room, (_, _, direct) in rooms.items():
        for below in direct:
            if (room, below) not in used:
                yield f"CMakeLists.txt: room {room} names {below}, of which it includes nothing"


def main():
    rooms = read_rooms()
    files = list_files()
    errors = 0
    for text in unused_arrows(rooms, files):
        print(text)
        errors += 1
    for path in files:
        for number, error, text in check_file(path, rooms):
            print(f"{path}:{number}: {text}")
            errors += error
    print(f"lint: {len(files)} files, {len(rooms)} rooms, {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
