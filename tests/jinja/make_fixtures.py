#!/usr/bin/env python3
"""Writes what tests/jinja expects, from what jinja2 renders as transformers calls it.

  make_fixtures.py [--outputs FOLDER]   fixtures.json, and templates.json where data/chat_templates
                                        exists (scripts/fetch_chat_templates.py)

fixtures.json: small templates of our own with their texts and answers.
templates.json: for each fetched template a hash of its text and answers for each of
  conversations.json, or "error" where jinja2 raises.

Needs jinja2==3.1.6.
"""
import argparse
import datetime
import functools
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox
from jinja2 import nodes

from cases import TEMPLATES as SMALL
from cases import VARIABLES

assert jinja2.__version__ == "3.1.6"
HERE = pathlib.Path(__file__).resolve().parent
TEMPLATES = HERE.parent.parent / "data" / "chat_templates"
NOW = datetime.datetime(2026, 3, 9, 14, 5, 6)
BEGIN, END = "\ue000", "\ue001"


class Generation(jinja2.ext.Extension):
    """{% generation %} as transformers has it. `marks`: puts characters around the answers instead."""

    tags = {"generation"}
    marks = False
    seen, answers = [], []

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_track"), [], [], body).set_lineno(line)

    def _track(self, caller):
        text = caller()
        if Generation.marks:
            return BEGIN + text + END
        begin = len("".join(Generation.seen))
        Generation.answers.append((begin, begin + len(text)))
        return text


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        values = dict(*args, **kwargs)
        for name in values:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime, namespace=Namespace,
                        dict=lambda *args, **kwargs: dict(*args, **kwargs))
    return made


ENVIRONMENT = environment()


def is_generation(node):
    return isinstance(node, nodes.CallBlock) and isinstance(node.call.node, nodes.ExtensionAttribute)


def generation_within(node, within=False):
    """Whether a {% generation %} stands where transformers sees a wrong place: its text is kept first."""
    if is_generation(node):
        if within:
            return True
        within = True
    elif isinstance(node, (nodes.Macro, nodes.CallBlock, nodes.AssignBlock, nodes.FilterBlock)):
        within = True
    return any(generation_within(child, within) for child in node.iter_child_nodes())


def bytes_of(text, spans):
    return [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans if a < b]


@functools.lru_cache(2)
def compiled(source):
    return ENVIRONMENT.from_string(source), generation_within(ENVIRONMENT.parse(source))


def render(source, variables):
    """(text, answers in bytes), or None where jinja2 raises."""
    try:
        template, Generation.marks = compiled(source)
        Generation.seen, Generation.answers = [], []
        for part in template.generate(**variables):
            Generation.seen.append(part)
        text = "".join(Generation.seen)
        text.encode()
        spans = Generation.answers
        if Generation.marks:
            text, spans, depth = "", [], 0
            for c in "".join(Generation.seen):
                if c == BEGIN:
                    depth += 1
                    begin = len(text) if depth == 1 else begin
                elif c == END:
                    depth -= 1
                    spans += [(begin, len(text))] if depth == 0 else []
                else:
                    text += c
    except Exception:
        return None
    return text, bytes_of(text, spans)


def hash_of(text, answers):
    value = 0xCBF29CE484222325
    for byte in text.encode() + json.dumps(answers, separators=(",", ":")).encode():
        value = (value ^ byte) * 0x100000001B3 & 2**64 - 1
    return f"{value:016x}"


def write(name, value):
    (HERE / name).write_text(json.dumps(value, indent=0, separators=(",", ":"), ensure_ascii=True) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--outputs", type=pathlib.Path)
    outputs = parser.parse_args().outputs
    fixtures = []
    for source in SMALL:
        found = render(source, VARIABLES)
        fixtures.append({"template": source} | ({"text": found[0], "answers": found[1]} if found else {"error": True}))
    write("fixtures.json", {"variables": VARIABLES, "cases": fixtures})
    print(len(fixtures), "cases,", sum("error" in case for case in fixtures), "of which raise")
    if not TEMPLATES.exists():
        return
    conversations = json.loads((HERE / "conversations.json").read_text())
    hashes, raised = {}, 0
    for path in sorted(TEMPLATES.glob("*/*.jinja")):
        source = path.read_bytes().decode()
        name = f"{path.parent.name}/{path.name}"
        hashes[name] = []
        for number, each in enumerate(conversations):
            found = render(source, each["variables"])
            raised += found is None
            hashes[name].append(hash_of(*found) if found else "error")
            if outputs and found:
                outputs.mkdir(parents=True, exist_ok=True)
                (outputs / f"{path.parent.name}+{path.name}.{number}").write_bytes(
                    found[0].encode() + json.dumps(found[1], separators=(",", ":")).encode())
    write("templates.json", hashes)
    print(len(hashes), "templates,", len(conversations), "conversations,", raised, "renderings raise")


if __name__ == "__main__":
    main()
