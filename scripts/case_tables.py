#!/usr/bin/env python3
"""Writes convoy/jinja/case_tables.cpp: upper, lower and title case of every character, and which ones
Python's repr() shows. All is asked of the Python that runs this, so it knows that Python's Unicode."""
import pathlib
import sys
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCALARS = [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]


def runs(pairs):
    """(first, last, step, distance) of characters that move by the same distance, one or two apart."""
    out = []
    for c, distance in pairs:
        if out:
            first, last, step, same = out[-1]
            gap = c - last
            if same == distance and gap in (1, 2) and (step == gap or first == last):
                out[-1] = (first, c, gap, same)
                continue
        out.append((c, c, 1, distance))
    return out


def ranges(kept):
    out = []
    for c in kept:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def lines(items, width=96):
    line = " "
    for item in items:
        if len(line) + len(item) + 2 > width:
            yield line
            line = " "
        line += f" {item},"
    yield line


def array(kind, name, items):
    return [f"constexpr {kind} {name}[] = {{", *lines(items), "};", ""]


def main():
    out = [f"// Made by scripts/case_tables.py with Unicode {unicodedata.unidata_version}.",
           '#include "convoy/jinja/case_tables.h"', "", "// clang-format off",
           "namespace convoy::jinja {", "", "namespace {", ""]
    for name, change in (("Upper", str.upper), ("Lower", str.lower), ("Title", str.title)):
        one, many = [], []
        for c in SCALARS:
            to = change(chr(c))
            if len(to) > 1:
                many.append((c, to))
            elif to != chr(c):
                one.append((c, ord(to) - c))
        out += array("CaseRun", f"k{name}", [f"{{{a:#x}, {b:#x}, {s}, {d}}}" for a, b, s, d in runs(one)])
        text = [f'{{{c:#x}, "' + "".join(f"\\x{byte:02x}" for byte in to.encode()) + '"}' for c, to in many]
        out += array("CaseText", f"k{name}Texts", text)
    cased = [c for c in SCALARS if ("A\u03a3" + chr(c)).lower()[1] == "\u03c3"]
    is_cased = set(cased)
    ignorable = [c for c in SCALARS if c not in is_cased and ("A\u03a3" + chr(c) + "A").lower()[1] == "\u03c3"]
    hidden = [c for c in SCALARS if not chr(c).isprintable()]
    for name, kept in (("Cased", cased), ("Ignorable", ignorable), ("Hidden", hidden)):
        out += array("CharRange", f"k{name}", [f"{{{a:#x}, {b:#x}}}" for a, b in ranges(kept)])
    out += ["}  // namespace", "",
            "const CaseTables kCaseTables{{kUpper, kUpperTexts}, {kLower, kLowerTexts}, {kTitle, kTitleTexts},",
            "                             kCased, kIgnorable, kHidden};", "",
            "}  // namespace convoy::jinja", ""]
    (ROOT / "convoy/jinja/case_tables.cpp").write_text("\n".join(out))


if __name__ == "__main__":
    main()
