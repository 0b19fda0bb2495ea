#!/usr/bin/env python3
"""What two layers of true width move in a step: at most 1.45 times what their products and their state must.

wide_test.py compares; wide_test.py --print has the numbers of docs/gpu.md. A micro-batch of 2 x 1024 tokens, bf16, as
parts of GPT-2 124M and of a Llama of 1B; some minutes on a processor.
"""
import collections
import dataclasses
import re
import sys
import unittest

from counts_test import read_counts
from runs import NO_DROPOUT, Runs

STEP, ROWS, LENGTH, LAYERS = 3, 2, 1024, 2
MOST_LAUNCHES = {"gpt2": 29, "llama": 29}  # of a layer, both ways


@dataclasses.dataclass
class Shape:
    config: list
    vocabulary: int
    width: int
    products: list  # (in, out) of a layer's weights
    tables: int     # embeddings and heads, each [vocabulary, width]; positions apart
    heads: int
    key_heads: int
    head_width: int


SHAPES = {
    "gpt2": Shape(["n_layer=2", "n_embd=768", "n_head=12", "n_positions=1024"], 50257, 768,
                  [(768, 3 * 768), (768, 768), (768, 3072), (3072, 768)], 1, 12, 12, 64),
    "llama": Shape(["num_hidden_layers=2", "hidden_size=2048", "intermediate_size=5632", "num_attention_heads=32",
                    "num_key_value_heads=4", "max_position_embeddings=2048", "tie_word_embeddings=false"], 32000, 2048,
                   [(2048, 2048 + 512), (2048, 2048), (2048, 2 * 5632), (5632, 2048)], 2, 32, 4, 64),
}


def products(shape):
    """Bytes of the operands of a step's products, each read or written once: bf16, gradients of weights fp32."""
    tokens, out = ROWS * LENGTH, 0
    for inputs, outputs in LAYERS * shape.products + [(shape.width, shape.vocabulary)]:
        x, y, w = tokens * inputs, tokens * outputs, inputs * outputs
        out += 2 * (x + w + y) + 2 * (y + w + x) + 2 * (x + y) + 4 * w
    query, keys = shape.heads * shape.head_width, 2 * shape.key_heads * shape.head_width
    forward, backward = 2 * query + keys, 2 * (2 * query + keys)
    return out + 2 * LAYERS * tokens * (forward + backward)


def state(shape):
    """Bytes of weights, gradients and moments, each read or written once by AdamW."""
    weights = shape.tables * shape.vocabulary * shape.width + LAYERS * sum(i * o for i, o in shape.products)
    return weights * (3 * 2 * 4 + 4 + 2)  # three that are read and written, the gradient, the copy in bf16


def measure(runs, family):
    """(launches of a layer, bytes that a step's operations read and wrote, waits, allocations past the cache)."""
    shape, file = SHAPES[family], runs.folder / "counts"
    (runs.folder / f"{family}.toml").write_text("\n".join([
        "[model]", f'family = "{family}"', f"vocab_size = {shape.vocabulary}", *shape.config,
        "[data]", 'train = "text.txt"', 'tokenizer = "plain"', f"block_size = {LENGTH}",
        "[train]", f"per_device_train_batch_size = {ROWS}", "logging_steps = 1", "seed = 1", 'save_strategy = "no"', ""]))
    file.unlink(missing_ok=True)
    result = runs.train(family, (*NO_DROPOUT[family], "--bf16", "--max_steps", str(STEP + 1)), 1,
                        f"counts={file},memory=20GB", timeout=1500)
    if result.code or result.misuses:
        raise AssertionError(result.misuses or result.out[-2000:])
    out = collections.Counter()
    for step, label, numbers in read_counts(file):
        if step != STEP or label == "data":  # there the trainer finds out how fast the device is
            continue
        for column in ("operands", "waits", "allocations past the cache"):
            out[column] += numbers[column]
        if re.search(r"ward block 2\b", label):
            out["launches"] += numbers["launches"]
    return out["launches"], out["operands"], out["waits"], out["allocations past the cache"]


class Wide(unittest.TestCase):
    def test_moves_at_most_half_more_than_it_must(self):
        runs = Runs()
        self.addCleanup(runs.remove)
        for family, shape in SHAPES.items():
            with self.subTest(model=family):
                launches, operands, waits, allocations = measure(runs, family)
                self.assertLessEqual(launches, MOST_LAUNCHES[family])
                self.assertLessEqual(operands, 1.45 * (products(shape) + state(shape)))
                self.assertGreater(operands, products(shape) + state(shape))
                self.assertEqual((waits, allocations), (1, 0))


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        of_all = Runs()
        for name, of in SHAPES.items():
            found = measure(of_all, name)
            print(name, *found, products(of), state(of), f"{found[1] / (products(of) + state(of)):.2f}", flush=True)
        of_all.remove()
    else:
        unittest.main()
