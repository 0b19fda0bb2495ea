#!/usr/bin/env python3
"""Compares `convoy data tokenize` with Hugging Face's tokenizers and SentencePiece: every id, and
the speed of one thread.

  benchmarks/compare_tokenizers.py [MEGABYTES] [NAME...]     names as in data/tokenizers

Needs scripts/fetch_tokenizers.py, and a Python with tokenizers, sentencepiece and pyarrow. The text
is what a Debian machine has: manuals (also Chinese, Japanese, Russian, ...), headers, Python and Perl
sources, documentation (install anarchism and linux-doc for books), and the texts of
data/tokenizers/texts. Documents of up to 100,000 characters are encoded at once.
"""
import glob
import gzip
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import pyarrow.parquet

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "tokenizers"
# The scarce first: what one lacks the next ones give.
PATTERNS = ["/usr/share/man/zh_*/**/*.gz", "/usr/share/man/ja/**/*.gz", "/usr/share/man/ru/**/*.gz",
            "/usr/share/doc/**/*.md*", "/usr/share/doc/**/*.gz", "/usr/share/doc/**/copyright",
            "/usr/share/man/[a-z][a-z]/man*/*.gz", "/usr/share/man/man*/*.gz",
            "/usr/share/perl/**/*.p[lm]", "/usr/lib/python3*/**/*.py", "/usr/include/**/*.h"]
MAX_CHARACTERS = 100_000


def load_fixtures():
    spec = importlib.util.spec_from_file_location("make_fixtures", ROOT / "tests/tokenizers/make_fixtures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documents(megabytes):
    order = random.Random(1)
    size = 0
    for path in sorted((DATA / "texts").iterdir()):
        text = path.read_bytes().decode("utf-8", "replace")
        for begin in range(0, len(text), MAX_CHARACTERS):
            size += len(text[begin:begin + MAX_CHARACTERS].encode())
            yield text[begin:begin + MAX_CHARACTERS]
    for left, pattern in zip(range(len(PATTERNS), 0, -1), PATTERNS):
        files, share, taken = glob.glob(pattern, recursive=True), (megabytes * 1e6 - size) / left, 0
        order.shuffle(files := sorted(files))
        for file in files:
            if taken > share:
                break
            try:
                with (gzip.open if file.endswith(".gz") else open)(file, "rb") as stream:
                    text = stream.read().decode("utf-8")[:MAX_CHARACTERS]
            except (OSError, EOFError, UnicodeDecodeError):
                continue
            taken += len(text.encode())
            yield text
        size += taken


def main():
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 50
    fixtures = load_fixtures()
    names = sys.argv[2:] or sorted(fixtures_name for fixtures_name in json.loads(
        (ROOT / "tests/tokenizers/large.json").read_text()))
    texts = list(documents(megabytes))
    size = sum(len(text.encode()) for text in texts)
    print(f"{len(texts)} documents, {size / 1e6:.1f} MB\n")
    print("| tokenizer | tokens | other documents | convoy | baseline | ratio |\n|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        lines, out = pathlib.Path(folder) / "texts.jsonl", pathlib.Path(folder) / "ids.parquet"
        lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        for name in names:
            command = [ROOT / "build/bin/convoy", "data", "tokenize", lines, "--tokenizer",
                       DATA / name, "--output", out, "--threads", "1"]
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            ours = time.perf_counter() - start
            encode, theirs, tokens, different = fixtures.encoder_of(DATA / name), 0.0, 0, 0
            for text, ids in zip(texts, pyarrow.parquet.read_table(out)["input_ids"]):
                start = time.perf_counter()
                expected = encode(text)
                theirs += time.perf_counter() - start
                tokens += len(expected)
                different += ids.as_py() != expected
            print(f"| {name} | {tokens:,} | {different} | {size / ours / 1e6:.1f} MB/s"
                  f" | {size / theirs / 1e6:.1f} MB/s | {theirs / ours:.1f}x |", flush=True)


if __name__ == "__main__":
    main()
