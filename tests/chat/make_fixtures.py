#!/usr/bin/env python3
"""Writes masks.json: conversations with transformers' ids and return_assistant_tokens_mask.

Needs transformers 5.24 and tokenizers 0.23.3. The tokenizer is `gpt2` of tests/tokenizers/small.json
with ChatML's tokens; templates.json holds the templates, those with {% generation %} and those
without.
"""
import json
import pathlib

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).resolve().parent
SMALL = HERE.parent / "tokenizers" / "small.json"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>"]
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"place": "Bern", "days": 2}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather of a place.",
                                         "parameters": {"type": "object", "properties": {
                                             "place": {"type": "string"}, "days": {"type": "integer"}}}}}
CONVERSATIONS = [
    {"messages": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "I am Otto."}]},
    {"messages": [{"role": "system", "content": "Be  brief."}, {"role": "user", "content": "1 + 1?\n"},
                  {"role": "assistant", "content": " 2"}, {"role": "user", "content": "caf\u00e9 \U0001f600?"},
                  {"role": "assistant", "content": "na\u00efve \u4e2d\u6587 \U0001f600\n\n"}]},
    {"messages": [{"role": "user", "content": "Rain?"},
                  {"role": "assistant", "content": None, "tool_calls": [CALL]},
                  {"role": "tool", "content": "{\"rain\": true}", "name": "weather"},
                  {"role": "assistant", "content": "Yes.", "reasoning": "It says so."}], "tools": [TOOL]},
    {"messages": [{"role": "user", "content": "A question without an answer"}]},
    {"messages": [{"role": "assistant", "content": "I begin."}, {"role": "user", "content": ""},
                  {"role": "assistant", "content": ""}, {"role": "assistant", "content": "x"}]},
]


def tokenizer():
    small = {one["name"]: one["tokenizer"] for one in json.loads(SMALL.read_text())}
    backend = Tokenizer.from_str(json.dumps(small["gpt2"]))
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    return backend


def main():
    backend = tokenizer()
    chats = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="<|im_end|>",
                                    pad_token="<|endoftext|>")
    out = {"tokenizer": json.loads(backend.to_str()), "conversations": CONVERSATIONS, "masks": {}}
    for name, template in json.loads((HERE / "templates.json").read_text()).items():
        out["masks"][name] = []
        for each in CONVERSATIONS:
            coded = chats.apply_chat_template(each["messages"], tools=each.get("tools"), chat_template=template,
                                              tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            out["masks"][name].append({"ids": coded["input_ids"], "mask": coded["assistant_masks"]})
    (HERE / "masks.json").write_text(json.dumps(out, separators=(",", ":")).replace('},{"ids', '},\n{"ids') + "\n")


if __name__ == "__main__":
    main()
