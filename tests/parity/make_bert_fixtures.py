#!/usr/bin/env python3
"""Writes the fixtures of bert_test.cpp: what Hugging Face's BERT computes with both of its heads.

Needs torch, transformers and safetensors (the committed files were made with torch 2.15.0 and
transformers 5.23.0, one thread, fp32):

    python3 tests/parity/make_bert_fixtures.py tests/parity
"""
import json
import sys

import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

from training import add_gradients, add_losses, moved, save

VOCAB, LENGTH, ROWS, BATCHES, LABELS = 61, 8, 3, 5, 3
CONFIG = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
              intermediate_size=24, max_position_embeddings=12, hidden_dropout_prob=0.0,
              attention_probs_dropout_prob=0.0, num_labels=LABELS)


def without_decay(name):
    return name.endswith("bias") or "LayerNorm" in name


def inputs_of(data, b, order=slice(None)):
    return dict(input_ids=data["ids"][b][order], token_type_ids=data["types"][b][order],
                attention_mask=data["mask"][b][order], labels=data["labels"][b][order])


def mean_loss(model, inputs):
    """In the model's precision."""
    labels = inputs.pop("labels").reshape(-1)
    logits = model(**inputs).logits.reshape(len(labels), -1)
    return torch.nn.functional.cross_entropy(logits, labels)


def write(folder, name, model_type, labels):
    torch.manual_seed(0)
    model = model_type(BertConfig(**CONFIG, problem_type="single_label_classification")).float()
    start = moved(model)
    shape = (BATCHES, ROWS, LENGTH)
    lengths = torch.randint(4, LENGTH + 1, (BATCHES, ROWS, 1))
    places = torch.arange(LENGTH).expand(shape)
    data = dict(ids=torch.randint(1, VOCAB, shape), mask=(places < lengths).long(),
                types=(places >= 3).long() * (places < lengths))
    data["ids"] = torch.where(data["mask"] > 0, data["ids"], 0)
    data["labels"] = labels(data)
    out = {"weight." + n: v for n, v in start.items()} | data
    model.eval()
    with torch.no_grad():
        result = model(**inputs_of(data, 0))
        out["logits"], out["loss"] = result.logits, result.loss.double().view(1)
        inputs = inputs_of(data, 0)
        out["plain_logits"] = model(input_ids=inputs["input_ids"]).logits
    add_gradients(out, model, lambda m, b, order: mean_loss(m, inputs_of(data, b, order)), BATCHES)
    print(name, *add_losses(out, model,
                            lambda m, step: m(**inputs_of(data, step % BATCHES)).loss,
                            without_decay))
    save(out, f"{folder}/bert_{name}.safetensors",
              metadata={"format": "pt", "config": json.dumps(model.config.to_dict())})


def hidden(data):
    chosen = (torch.rand(data["ids"].shape) < 0.4) & (data["mask"] > 0)
    return torch.where(chosen, data["ids"], -100)


def main(folder):
    torch.set_num_threads(1)
    write(folder, "masked", BertForMaskedLM, hidden)
    write(folder, "classifier", BertForSequenceClassification,
          lambda data: torch.randint(0, LABELS, (BATCHES, ROWS)))


main(sys.argv[1] if len(sys.argv) > 1 else ".")
