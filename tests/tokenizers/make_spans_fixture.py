#!/usr/bin/env python3
"""Writes spans.json: for tokenizers of small.json which bytes of texts their tokens stand for.

Offsets of Hugging Face's `tokenizers` (0.23.3), in bytes of UTF-8, without post-processor: that may
trim them.
"""
import json
import pathlib
import random

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("gpt2", "roberta", "llama3", "qwen2", "llama2", "metaspace_always", "metaspace_first",
         "metaspace_never", "granite", "digits")
# Letters, marks of several classes, what decomposes and composes, Hangul, and added tokens.
PARTS = ["a", "e", "o", " ", "  ", "low", "est", "\n", "1", "12", "\u0301", "\u0323", "\u0302", "\u0327",
         "\u05ae", "\u0315", "\u00e9", "\u1e9b", "\u212b", "\u0958", "\ufb1d", "\u0344", "\u1100", "\u1161",
         "\u11a8", "\uac00", "\u0f71", "\u0f72", "\u0f73", "\U0001d15e", "\u4e2d", "\U0001f600", "<s>", "</s>",
         "<mask>", "<tool>", "dogs", "\u2581", "\u3000"]


def texts():
    draw = random.Random(7)
    return ["", " ", "the quick brown fox", *("".join(draw.choice(PARTS) for _ in range(draw.randrange(1, 14)))
                                              for _ in range(120))]


def spans_of(tokenizer, text):
    begins = [0]
    for character in text:
        begins.append(begins[-1] + len(character.encode()))
    coding = tokenizer.encode(text, add_special_tokens=False)
    return coding.ids, [[begins[a], begins[b]] for a, b in coding.offsets]


def main():
    small = {one["name"]: one["tokenizer"] for one in json.loads((HERE / "small.json").read_text())}
    all_texts, out = texts(), {"texts": texts(), "tokenizers": {}}
    for name in NAMES:
        tokenizer = Tokenizer.from_str(json.dumps({**small[name], "post_processor": None}))
        out["tokenizers"][name] = [spans_of(tokenizer, text) for text in all_texts]
    text = json.dumps(out, separators=(",", ":"))
    (HERE / "spans.json").write_text(text.replace("]]],[", "]]],\n[") + "\n")


if __name__ == "__main__":
    main()
