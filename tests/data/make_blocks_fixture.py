#!/usr/bin/env python3
"""Writes blocks.json: the blocks that Hugging Face's `datasets` makes of texts, mapped as run_clm.py
maps them.

Needs datasets (the committed file was made with datasets 5.2.0; nothing is fetched):

    python3 tests/data/make_blocks_fixture.py tests/data

Text i of a case has (7 i^2 + 3 i) mod `most` tokens, and the tokens are numbers that go on from text
to text. So a block is told by its first number; that the others follow is checked here.
"""
import json
import os
import pathlib
import sys
import tempfile
from itertools import chain

SPACE = tempfile.TemporaryDirectory()
os.environ.update(HF_HOME=SPACE.name, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import datasets  # noqa: E402

# Texts, most tokens of one, block size, percent held out. 5 % of 2,410, 2,430, 2,590 end in a half.
CASES = [(2000, 37, 128, 5), (2410, 19, 64, 5), (2430, 37, 256, 5), (2590, 53, 1024, 5),
         (2345, 23, 512, 7), (2300, 7, 100, 1)]


def write_texts(path, num_texts, most):
    first = 0
    with open(path, "w") as file:
        for i in range(num_texts):
            length = (7 * i * i + 3 * i) % most
            file.write(" ".join(map(str, range(first, first + length))) + "\n")
            first += length


def starts_of(texts, block_size):
    def tokenize(batch):
        return {"input_ids": [[int(word) for word in text.split()] for text in batch["text"]]}

    def cut(batch):
        joined = list(chain.from_iterable(batch["input_ids"]))
        end = len(joined) - len(joined) % block_size
        return {"input_ids": [joined[at : at + block_size] for at in range(0, end, block_size)]}

    tokens = texts.map(tokenize, batched=True, remove_columns=["text"])
    blocks = tokens.map(cut, batched=True)["input_ids"]
    for block in blocks:
        assert list(block) == list(range(block[0], block[0] + block_size))
    return [block[0] for block in blocks]


def main():
    datasets.disable_progress_bars()
    cases = []
    for num_texts, most, block_size, percent in CASES:
        path = pathlib.Path(SPACE.name) / f"{num_texts}.txt"
        write_texts(path, num_texts, most)
        valid, train = datasets.load_dataset(
            "text", data_files={"train": str(path)}, keep_linebreaks=True,
            split=[f"train[:{percent}%]", f"train[{percent}%:]"])
        assert len(valid) + len(train) == num_texts
        case = {"num_texts": num_texts, "most": most, "block_size": block_size, "percent": percent,
                "held_out": len(valid), "valid": starts_of(valid, block_size),
                "train": starts_of(train, block_size)}
        cases.append(json.dumps(case))
    text = f'{{"datasets": "{datasets.__version__}",\n"cases": [\n' + ",\n".join(cases) + "\n]}\n"
    (pathlib.Path(sys.argv[1]) / "blocks.json").write_text(text)


main()
