#!/usr/bin/env python3
"""Writes the fixtures of bert_test.cpp: what Hugging Face's BERT computes with both of its heads.

Needs torch, transformers and safetensors (the committed files were made with torch 2.15.0 and
transformers 5.23.0, one thread, fp32):

    python3 tests/parity/make_bert_fixtures.py tests/parity
"""
import copy
import itertools
import json
import sys

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

VOCAB, LENGTH, ROWS, BATCHES, GRADIENTS, STEPS, LABELS = 61, 8, 3, 5, 5, 100, 3
LR, DECAY, CLIP = 2e-3, 0.05, 1.0
CONFIG = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
              intermediate_size=24, max_position_embeddings=12, hidden_dropout_prob=0.0,
              attention_probs_dropout_prob=0.0, num_labels=LABELS)


def without_decay(name):
    return name.endswith("bias") or "LayerNorm" in name


def inputs_of(data, b, order=slice(None)):
    return dict(input_ids=data["ids"][b][order], token_type_ids=data["types"][b][order],
                attention_mask=data["mask"][b][order], labels=data["labels"][b][order])


def gradient(model, inputs):
    """Of the mean loss, in the model's precision."""
    model.zero_grad()
    labels = inputs.pop("labels").reshape(-1)
    logits = model(**inputs).logits.reshape(len(labels), -1)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    return {n: v.grad.clone() for n, v in model.named_parameters()}


def write(folder, name, model_type, labels):
    torch.manual_seed(0)
    model = model_type(BertConfig(**CONFIG, problem_type="single_label_classification")).float()
    with torch.no_grad():  # away from the special points of fresh weights
        for value in model.parameters():
            value.add_(0.05 * torch.randn_like(value))
    shape = (BATCHES, ROWS, LENGTH)
    lengths = torch.randint(4, LENGTH + 1, (BATCHES, ROWS, 1))
    places = torch.arange(LENGTH).expand(shape)
    data = dict(ids=torch.randint(1, VOCAB, shape), mask=(places < lengths).long(),
                types=(places >= 3).long() * (places < lengths))
    data["ids"] = torch.where(data["mask"] > 0, data["ids"], 0)
    data["labels"] = labels(data)
    start = {n: v.detach().clone() for n, v in model.named_parameters()}
    out = {"weight." + n: v for n, v in start.items()} | data
    model.eval()
    with torch.no_grad():
        result = model(**inputs_of(data, 0))
        out["logits"], out["loss"] = result.logits, result.loss.double().view(1)
        inputs = inputs_of(data, 0)
        out["plain_logits"] = model(input_ids=inputs["input_ids"]).logits
    exact = copy.deepcopy(model).double()
    orders = [list(order) for order in itertools.permutations(range(ROWS))]
    exact_of = [gradient(exact, inputs_of(data, b)) for b in range(GRADIENTS)]
    rounded_of = [[gradient(model, inputs_of(data, b, order)) for b in range(GRADIENTS)]
                  for order in orders]
    for n in start:
        out["grad." + n] = torch.stack([g[n] for g in exact_of]).float()
        errors = [sum((r[n] - e[n]).norm() ** 2 / e[n].norm() ** 2
                      for r, e in zip(rounded, exact_of)) for rounded in rounded_of]
        out["torch_error." + n] = (max(errors) / GRADIENTS).sqrt().view(1)
    named = dict(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [v for n, v in named.items() if not without_decay(n)], "weight_decay": DECAY},
         {"params": [v for n, v in named.items() if without_decay(n)], "weight_decay": 0.0}],
        lr=LR, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1 - s / STEPS)
    model.train()
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(**inputs_of(data, step % BATCHES)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(named.values(), CLIP)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    save_file({n: v.contiguous() for n, v in out.items()}, f"{folder}/bert_{name}.safetensors",
              metadata={"format": "pt", "config": json.dumps(model.config.to_dict())})
    print(name, losses[0], losses[-1])


def hidden(data):
    chosen = (torch.rand(data["ids"].shape) < 0.4) & (data["mask"] > 0)
    return torch.where(chosen, data["ids"], -100)


def main(folder):
    torch.set_num_threads(1)
    write(folder, "masked", BertForMaskedLM, hidden)
    write(folder, "classifier", BertForSequenceClassification,
          lambda data: torch.randint(0, LABELS, (BATCHES, ROWS)))


main(sys.argv[1] if len(sys.argv) > 1 else ".")
