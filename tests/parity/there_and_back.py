#!/usr/bin/env python3
"""Takes models from Hugging Face to convoy and back.

    PYTHON tests/parity/there_and_back.py build/tests/test_parity [gpt2-124m]

Writes a folder with a random model, what it computes and how 100 AdamW steps (124M: 20) go; has
test_parity read it, compare, and save the model in shards; loads that folder unchanged in
transformers and compares the logits bit for bit. Needs torch, transformers and safetensors.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, AutoModelForSeq2SeqLM, GPT2Config,
                          GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, T5Config,
                          T5ForConditionalGeneration)

OFF = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
SMALL = dict(vocab_size=211, bos_token_id=0, eos_token_id=0)
T5 = dict(vocab_size=211, num_layers=3, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0)


def untied(model):
    """transformers 5 ties whatever is asked for; files of version 4 have a head of their own."""
    head = torch.nn.Linear(48, 211, bias=False)
    model.lm_head, model.config.tie_word_embeddings = head, False
    model.all_tied_weights_keys.pop("lm_head.weight")
    return model


MODELS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(n_embd=48, n_layer=3, n_head=4, n_positions=64,
                                               **SMALL, **OFF)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(
        hidden_size=48, intermediate_size=96, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=64, **SMALL, rope_parameters={
            "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32})),
    "llama-tied-bf16": lambda: LlamaForCausalLM(LlamaConfig(
        hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=6,
        tie_word_embeddings=True, **SMALL)).bfloat16(),
    "t5": lambda: T5ForConditionalGeneration(T5Config(d_model=48, d_kv=8, d_ff=96, **T5)),
    "t5-gated-untied": lambda: untied(T5ForConditionalGeneration(T5Config(
        d_model=48, d_kv=16, d_ff=96, num_decoder_layers=2, feed_forward_proj="gated-gelu",
        tie_word_embeddings=False, **T5))),
    "gpt2-124m": lambda: GPT2LMHeadModel(GPT2Config(**OFF)),
}
LR = 1e-4


def losses_of(model, ids, labels, steps):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.0, fused=True)
    out = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(input_ids=ids[step % len(ids)], labels=labels[step % len(ids)]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        out.append(loss.item())
    return torch.tensor(out, dtype=torch.float64)


def check(program, name):
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        large = name.endswith("m")
        model = MODELS[name]()
        model.save_pretrained(f"{folder}/there")
        model = model.float().eval()
        ids = torch.randint(0, model.config.vocab_size, (4, 2, 128 if large else 48))
        answers = model.config.is_encoder_decoder
        labels = torch.randint(0, model.config.vocab_size, (4, 2, 20)) if answers else ids
        inputs = dict(input_ids=ids[0], labels=labels[0]) if answers else dict(input_ids=ids[0])
        with torch.no_grad():
            logits = model(**inputs).logits
        steps = 20 if large else 100
        save_file({"ids": ids, "logits": logits, "losses": losses_of(model, ids, labels, steps)} |
                  ({"labels": labels} if answers else {}), f"{folder}/expected.safetensors")
        subprocess.run([program, "--gtest_also_run_disabled_tests", "--gtest_brief=1",
                        "--gtest_filter=ThereAndBack.*"], check=True,
                       env={**os.environ, "CONVOY_THERE_AND_BACK": folder})
        auto = AutoModelForSeq2SeqLM if answers else AutoModelForCausalLM
        back = auto.from_pretrained(f"{folder}/back", dtype=torch.float32).eval()
        there = auto.from_pretrained(f"{folder}/there", dtype=torch.float32).eval()
        assert os.path.exists(f"{folder}/back/model.safetensors.index.json")
        with torch.no_grad():
            same = torch.equal(back(**inputs).logits, there(**inputs).logits)
        changed = {key: (value, back.config.to_dict().get(key))
                   for key, value in there.config.to_dict().items()
                   if key not in ("dtype", "_name_or_path") and
                   json.dumps(back.config.to_dict().get(key)) != json.dumps(value)}
        print(f"{name}: logits {'equal' if same else 'DIFFER'}, config "
              f"{'equal' if not changed else changed}", flush=True)
        return same and not changed


def main(program, *names):
    torch.set_num_threads(1)
    sys.exit(0 if all([check(program, name) for name in names or list(MODELS)[:-1]]) else 1)


main(*sys.argv[1:])
