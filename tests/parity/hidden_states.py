#!/usr/bin/env python3
"""Compares the states of 1,000 sentences with Hugging Face's, of a BERT from a folder.

    PYTHON tests/parity/hidden_states.py build/tests/test_parity [data/minilm [data/reviews/valid.jsonl]]

`./dev data reviews` makes the folder and the sentences. Needs torch, transformers and safetensors.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, BertModel

SENTENCES, BATCH, LONGEST = 1000, 50, 128


def main(program, model_folder="data/minilm", texts="data/reviews/valid.jsonl"):
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = BertModel.from_pretrained(model_folder, dtype=torch.float32).eval()
    with open(texts) as file:
        sentences = [json.loads(line)["text"] for line in file][:SENTENCES]
    assert len(sentences) == SENTENCES
    out = {}
    for number, begin in enumerate(range(0, SENTENCES, BATCH)):
        inputs = tokenizer(sentences[begin:begin + BATCH], padding=True, truncation=True,
                           max_length=LONGEST, return_tensors="pt")
        with torch.no_grad():
            states = model(**inputs).last_hidden_state
        out |= {f"ids.{number}": inputs["input_ids"], f"mask.{number}": inputs["attention_mask"],
                f"states.{number}": states}
    with tempfile.TemporaryDirectory() as folder:
        save_file({n: v.contiguous() for n, v in out.items()}, f"{folder}/states.safetensors")
        run = subprocess.run([program, "--gtest_also_run_disabled_tests", "--gtest_brief=1",
                              "--gtest_filter=HiddenStates.*"],
                             env={**os.environ, "CONVOY_MODEL": model_folder,
                                  "CONVOY_STATES": f"{folder}/states.safetensors"})
    sys.exit(run.returncode)


main(*sys.argv[1:])
