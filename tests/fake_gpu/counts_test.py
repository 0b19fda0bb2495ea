#!/usr/bin/env python3
"""What a step asks of a GPU may not grow: waits of the host, blocking copies, launches, copies and their bytes, and
those of operands.

counts_test.py compares with counts.md, and docs/gpu.md with that; counts_test.py --write makes both anew. A step of a family's small model on one
GPU; a layer is the second of the model's, forward and backward.
"""
import collections
import pathlib
import re
import sys
import unittest

from layouts import batches
from runs import BODIES, NO_DROPOUT, ROOT, Runs

TABLE = pathlib.Path(__file__).with_name("counts.md")
PAGE = ROOT / "docs/gpu.md"
STEP = 3  # memory is warm by then, and the end is not near
FAMILIES = {
    "gpt2": ("gpt2", ()), "llama": ("llama", ()), "bert": ("bert", ()),
    "bert, labels of texts": ("classify", ()), "t5": ("t5", ()), "session": ("session", ()),
    **{f"session, body {body}": ("session", ("--model.body", body)) for body in ("bert", *BODIES)},
}
# With fewer variants: what Llama asks for beside the others.
MORE_OF_LLAMA = {
    "llama, a window": ("llama", ("--model.family", "mistral", "--model.sliding_window", "8")),
    "llama, documents apart": ("llama_apart", ()), "llama, pairs of answers": ("llama_pairs", ()),
    "llama, adapters": ("llama", ("--model_name_or_path", "base", "--lora_r", "4")),
    "llama, adapters of q and v": ("llama", ("--model_name_or_path", "base", "--lora_r", "4",
                                             "--lora_target_modules", "q_proj,v_proj")),
}
VARIANTS = {
    "fp32": lambda family: NO_DROPOUT[family],
    "fp32, dropout": lambda family: [],
    "bf16": lambda family: [*NO_DROPOUT[family], "--bf16"],
    "fp16": lambda family: [*NO_DROPOUT[family], "--fp16"],
    "4 micro-batches": lambda family: [*NO_DROPOUT[family], *batches(2, 4)],
}
COLUMNS = ("waits", "blocking copies", "launches", "launches of a layer", "copies up", "bytes up", "copies down", "bytes down",
           "allocations past the cache", "operands")
# Of these steps the page has some columns, under its own names.
ON_PAGE = {"waits": "waits", "blocking copies": "blocking copies", "launches": "launches", "launches of a layer": "of a layer",
           "bytes up": "bytes up", "bytes down": "bytes down", "operands": "bytes of operands"}
STEPS_ON_PAGE = ("fp32", "bf16")
VARIANTS_OF_MORE = STEPS_ON_PAGE
FILE = ("launches", "beside", "waits", "blocking copies", "copies up", "bytes up", "copies down", "bytes down",
        "allocations past the cache", "operands", "collectives", "meanwhile")
HEAD = """# What a step asks of a GPU

Written by `tests/fake_gpu/counts_test.py --write`, counted on the simulated device, where an operation is one launch
whatever kernels it has; the test fails where a number is larger. The small models of `tests/fake_gpu/runs.py`, on one
GPU, batches of 8 rows; the third step.
"""


def read_counts(file):
    """By label of each step of each process: (step, label, what the device counted by the names of FILE)."""
    for line in file.read_text().splitlines():
        _, step, *numbers = line.split("\t")
        label = numbers[len(FILE)] if len(numbers) > len(FILE) else ""
        yield int(step), label, dict(zip(FILE, map(int, numbers[:len(FILE)])))


def count(runs, family, args):
    """The numbers of one step, by COLUMNS."""
    file = runs.folder / "counts"
    file.unlink(missing_ok=True)
    result = runs.train(family, (*args, "--max_steps", str(STEP + 1)), 1, f"counts={file}")
    if result.code or result.misuses:
        raise AssertionError(result.misuses or result.out[-2000:])
    out = collections.Counter()
    for step, label, numbers in read_counts(file):
        if step != STEP:
            continue
        for column in COLUMNS:
            out[column] += numbers.get(column, 0)
        if re.search(r"ward block 2\b", label):
            out["launches of a layer"] += numbers["launches"]
    return [out[column] for column in COLUMNS]


def all_counts():
    """Maps (family, variant) to its numbers."""
    runs = Runs()
    cases = [(family, variant) for family in FAMILIES for variant in VARIANTS]
    cases += [(family, variant) for family in MORE_OF_LLAMA for variant in VARIANTS_OF_MORE]
    try:
        runs.train("llama", name="base")
        out = {}
        for family, variant in cases:
            model, args = {**FAMILIES, **MORE_OF_LLAMA}[family]
            out[family, variant] = count(runs, model, (*VARIANTS[variant](model), *args))
        return out
    finally:
        runs.remove()


def table(columns, counts):
    rows = [("model", "step", *columns)] + [(*key, *map(str, numbers)) for key, numbers in counts.items()]
    return ["| " + " | ".join(row) + " |" for row in rows[:1]] + ["|---|---|" + "--:|" * len(columns)] + [
        "| " + " | ".join(row) + " |" for row in rows[1:]]


def page_table(counts):
    """The part of the table that the page has."""
    return table(ON_PAGE.values(), {key: [numbers[COLUMNS.index(column)] for column in ON_PAGE]
                                    for key, numbers in counts.items() if key[1] in STEPS_ON_PAGE})


def on_page():
    """The page's lines, and where its table begins and ends."""
    lines = PAGE.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("| model | step |"))
    end = next(i for i in range(begin, len(lines)) if not lines[i].startswith("|"))
    return lines, begin, end


def write(counts):
    TABLE.write_text(HEAD + "\n" + "\n".join(table(COLUMNS, counts)) + "\n")
    lines, begin, end = on_page()
    PAGE.write_text("\n".join(lines[:begin] + page_table(counts) + lines[end:]) + "\n")


def read():
    rows = [[part.strip() for part in line.strip("|\n ").split("|")] for line in TABLE.read_text().splitlines()
            if line.startswith("|")]
    return {(row[0], row[1]): list(map(int, row[2:])) for row in rows[2:]}


class Counts(unittest.TestCase):
    def test_do_not_grow(self):
        known = read()
        for key, numbers in all_counts().items():
            for column, number, limit in zip(COLUMNS, numbers, known[key]):
                with self.subTest(model=key[0], step=key[1], column=column):
                    self.assertLessEqual(number, limit, "if it must be so: tests/fake_gpu/counts_test.py --write")

    def test_are_those_of_the_page(self):
        lines, begin, end = on_page()
        self.assertEqual(lines[begin:end], page_table(read()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write(all_counts())
    else:
        unittest.main()
