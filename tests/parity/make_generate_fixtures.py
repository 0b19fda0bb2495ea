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
                          LogitsProcessorList, T5Config, T5ForConditionalGeneration, TemperatureLogitsWarper, TopKLogitsWarper,
                          TopPLogitsWarper)

PROMPTS = [[5, 9, 2], [17], [40, 3, 3, 60, 8], [1, 2, 3, 4], [33, 12]]
NEW = 8  # of GPT-2's 12 positions some prompts leave less
T5_PROMPTS = [[56, 55, 4],
              [6, 6, 24, 54, 11, 48, 52, 43, 55, 20, 17, 39],
              [14, 39, 3, 38, 44, 11, 28],
              [41, 26, 52, 47, 56, 33, 24, 35, 60, 29, 33, 18, 58, 3],
              [56, 2, 24, 30, 60, 21, 59, 25, 28]]
T5_SCALES = {"relu": 2.5, "gated": 1.5}
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


def t5_of(folder, name):
    """With matrices scaled too; transformers 5 ties heads whatever is asked for."""
    with safe_open(f"{folder}/t5_{name}.safetensors", "pt") as file:
        model = T5ForConditionalGeneration(T5Config(**json.loads(file.metadata()["config"])))
        weights = {n[7:]: file.get_tensor(n) for n in file.keys() if n.startswith("weight.")}
    if "lm_head.weight" in weights:
        model.lm_head = torch.nn.Linear(*reversed(weights["lm_head.weight"].shape), bias=False)
    model.load_state_dict({n: v * T5_SCALES[name] if v.dim() == 2 else v for n, v in weights.items()},
                          strict=False)
    model.generation_config.eos_token_id = None
    return model.float().eval()


def answer(model, prompt):
    """The best tokens behind the one that a decoder starts with."""
    return greedy(model, prompt, NEW)[1:]


def greedy(model, prompt, most=None):
    """The best tokens; asserts that no other comes near."""
    begin = 0 if most else len(prompt)
    most = most or min(NEW, model.config.max_position_embeddings - len(prompt))
    out = model.generate(torch.tensor([prompt]), max_new_tokens=most, do_sample=False,
                         use_cache=not model.config.is_encoder_decoder,
                         pad_token_id=0, output_scores=True, return_dict_in_generate=True)
    for scores in out.scores:
        best = scores[0].topk(2).values
        assert best[0] - best[1] > 1e-4 * scores.abs().max(), "a tie: take another prompt"
    return out.sequences[0, begin:].tolist()


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
    out["t5_prompts"], out["t5_scales"] = T5_PROMPTS, T5_SCALES
    out["greedy"]["t5"] = {name: [answer(t5_of(folder, name), prompt) for prompt in T5_PROMPTS]
                           for name in T5_SCALES}
    with open(f"{folder}/generate.json", "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


main(sys.argv[1] if len(sys.argv) > 1 else ".")
