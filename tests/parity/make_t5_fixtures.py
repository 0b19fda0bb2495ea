#!/usr/bin/env python3
"""Writes the fixtures of t5_test.cpp: what Hugging Face's T5 computes.

Needs torch, transformers and safetensors (the committed files were made with torch 2.15.0 and
transformers 5.23.0, one thread, fp32):

    python3 tests/parity/make_t5_fixtures.py tests/parity
"""
import json
import sys

import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5LayerNorm

from training import add_gradients, add_losses, moved, save

VOCAB, LENGTH, ANSWER, ROWS, BATCHES, GRADIENTS = 61, 23, 9, 3, 5, 3
CONFIG = dict(vocab_size=VOCAB, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_decoder_layers=3,
              num_heads=2, relative_attention_num_buckets=8, relative_attention_max_distance=12,
              dropout_rate=0.0, decoder_start_token_id=0)
VARIANTS = {"relu": dict(feed_forward_proj="relu"),
            "gated": dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)}


def without_decay(name):
    return "layer_norm" in name or "bias" in name


def inputs_of(data, b, order=slice(None)):
    return dict(input_ids=data["ids"][b][order], attention_mask=data["mask"][b][order],
                labels=data["labels"][b][order])


def mean_loss(model, inputs):
    """In the model's precision."""
    logits = model(**inputs).logits.reshape(-1, VOCAB)
    return torch.nn.functional.cross_entropy(logits, inputs["labels"].reshape(-1))


def write(folder, name, more):
    torch.manual_seed(0)
    model = T5ForConditionalGeneration(T5Config(**{**CONFIG, **more})).float()
    config = model.config.to_dict()
    if not more.get("tie_word_embeddings", True):  # which transformers 5 does whatever is asked for
        model.lm_head.weight = torch.nn.Parameter(0.2 * torch.randn(VOCAB, 16))
        config["tie_word_embeddings"] = False
    start = moved(model)
    lengths = torch.randint(9, LENGTH + 1, (BATCHES, ROWS, 1))
    mask = (torch.arange(LENGTH) < lengths).long()
    answers = torch.arange(ANSWER) < torch.randint(3, ANSWER + 1, (BATCHES, ROWS, 1))
    data = dict(ids=torch.randint(1, VOCAB, (BATCHES, ROWS, LENGTH)) * mask, mask=mask,
                labels=torch.where(answers, torch.randint(1, VOCAB, (BATCHES, ROWS, ANSWER)), -100))
    out = {"weight." + n: v for n, v in start.items()} | data
    model.eval()
    with torch.no_grad():
        result = model(**inputs_of(data, 0))
        out["logits"], out["loss"] = result.logits, result.loss.double().view(1)
        out["plain_logits"] = model(input_ids=data["ids"][0], labels=data["labels"][0]).logits
    add_gradients(out, model, lambda m, b, order: mean_loss(m, inputs_of(data, b, order)),
                  GRADIENTS, T5LayerNorm)
    print(name, *add_losses(out, model, lambda m, step: m(**inputs_of(data, step % BATCHES)).loss,
                            without_decay))
    save(out, f"{folder}/t5_{name}.safetensors",
              metadata={"format": "pt", "config": json.dumps(config)})


def main(folder):
    torch.set_num_threads(1)
    for name, more in VARIANTS.items():
        write(folder, name, more)


main(sys.argv[1] if len(sys.argv) > 1 else ".")
