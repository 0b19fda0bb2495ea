#!/usr/bin/env python3
"""Writes Llama 3's tiktoken file as a tokenizer.json.

  tiktoken_to_json.py tokenizer.model FOLDER

A tiktoken file only holds tokens with their ranks. The regular expression and the special tokens
are those of Llama 3 and 3.1; merges follow from the ranks: every way to put a token together of two
others, in the order of the tokens' ranks.
"""
import base64
import json
import pathlib
import sys

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
           r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
NAMED = ["begin_of_text", "end_of_text", "reserved_special_token_0", "reserved_special_token_1",
         "finetune_right_pad_id", "step_id", "start_header_id", "end_header_id", "eom_id", "eot_id",
         "python_tag"]
NUM_SPECIAL = 256


def byte_alphabet():
    """GPT-2's printable character of each byte."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters, others = {byte: chr(byte) for byte in printable}, 0
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(0x100 + others)
            others += 1
    return characters


def read_ranks(path):
    ranks = {}
    for line in path.read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    return ranks


def merges_of(ranks):
    merges = []
    for token in sorted(ranks, key=ranks.get):
        halves = [(token[:i], token[i:]) for i in range(1, len(token))]
        merges += sorted((pair for pair in halves if pair[0] in ranks and pair[1] in ranks),
                         key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
    return merges


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ranks = read_ranks(pathlib.Path(sys.argv[1]))
    characters = byte_alphabet()

    def written(token):
        return "".join(characters[byte] for byte in token)

    names = NAMED + [f"reserved_special_token_{2 + i}" for i in range(NUM_SPECIAL - len(NAMED))]
    special = [
        {"id": len(ranks) + i, "content": f"<|{name}|>", "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": True} for i, name in enumerate(names)]
    begin = special[0]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": False}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated",
             "invert": False}, byte_level]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": begin["content"], "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": begin["content"], "type_id": 0}},
                     {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": begin["content"], "type_id": 1}},
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {begin["content"]: {
                "id": begin["content"], "ids": [begin["id"]], "tokens": [begin["content"]]}}},
        "decoder": {**byte_level, "add_prefix_space": True, "use_regex": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": True,
            "vocab": {written(token): rank for token, rank in ranks.items()},
            "merges": [[written(left), written(right)] for left, right in merges_of(ranks)]},
    }
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(tokenizer, ensure_ascii=False, indent=1)
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    config = {"bos_token": begin["content"], "eos_token": special[1]["content"],
              "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


if __name__ == "__main__":
    main()
