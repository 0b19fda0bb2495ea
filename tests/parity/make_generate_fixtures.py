#!/usr/bin/env python3
"""Writes generate.json: what Hugging Face's models of causal_*.safetensors go on with, and what its
warpers leave of some scores.

Needs torch, transformers and safetensors (the committed file was made with torch 2.15.0 and
transformers 5.23.0):

    python3 tests/parity/make_generate_fixtures.py tests/parity
"""
import json
import sys

import torch
from safetensors import safe_open
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper,
                          TopPLogitsWarper)

PROMPTS = [[5, 9, 2], [17], [40, 3, 3, 60, 8], [1, 2, 3, 4], [33, 12]]
NEW = 8  # of GPT-2's 12 positions some prompts leave less
SCALE = 6.0  # of the matrices, so that texts do not repeat one token


def model_of(folder, name, variant):
    config_type, model_type = {"gpt2": (GPT2Config, GPT2LMHeadModel),
                               "llama": (LlamaConfig, LlamaForCausalLM)}[name]
    with safe_open(f"{folder}/causal_{name}.safetensors", "pt") as file:
        config = config_type(**json.loads(file.metadata()["configs"])[variant])
        config.eos_token_id = None
        model = model_type(config).float().eval()
        weights = {n[7:]: file.get_tensor(n) for n in file.keys() if n.startswith("weight.")}
        weights = {n: v * SCALE if v.dim() == 2 else v for n, v in weights.items()}
    model.load_state_dict(weights, strict=False)
    return model


def greedy(model, prompt):
    """The best tokens; asserts that no other comes near."""
    most = min(NEW, model.config.max_position_embeddings - len(prompt))
    out = model.generate(torch.tensor([prompt]), max_new_tokens=most, do_sample=False,
                         pad_token_id=0, output_scores=True, return_dict_in_generate=True)
    for scores in out.scores:
        best = scores[0].topk(2).values
        assert best[0] - best[1] > 1e-4 * scores.abs().max(), "a tie: take another prompt"
    return out.sequences[0, len(prompt):].tolist()


def warped(scores, temperature, top_k, top_p):
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(TopPLogitsWarper(top_p))
    return warpers(None, scores[None].clone())[0].softmax(-1).tolist()


def main(folder):
    torch.manual_seed(0)
    out = {"prompts": PROMPTS, "new": NEW, "scale": SCALE, "greedy": {}, "warped": []}
    for name, variants in (("gpt2", ["", "by_layer"]), ("llama", ["", "yarn", "llama3"])):
        out["greedy"][name] = {}
        for variant in variants:
            model = model_of(folder, name, variant)
            out["greedy"][name][variant] = [greedy(model, prompt) for prompt in PROMPTS]
    scores = torch.randn(9).mul(2).round(decimals=2)
    scores[3] = scores[5]  # a tie
    for temperature, top_k, top_p in ((1.0, 0, 1.0), (0.5, 0, 1.0), (1.0, 3, 1.0), (2.0, 0, 0.6),
                                      (0.7, 5, 0.9), (1.0, 1, 1.0), (1.5, 0, 0.01), (1.0, 4, 0.5)):
        out["warped"].append({"temperature": temperature, "top_k": top_k, "top_p": top_p,
                              "probabilities": warped(scores, temperature, top_k, top_p)})
    out["scores"] = scores.tolist()
    with open(f"{folder}/generate.json", "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


main(sys.argv[1] if len(sys.argv) > 1 else ".")
