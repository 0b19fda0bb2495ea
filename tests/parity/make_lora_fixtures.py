#!/usr/bin/env python3
"""Writes the fixtures of lora_test.cpp: what PEFT computes with adapters of Hugging Face's models.

Needs torch, transformers, peft and safetensors (the committed files were made with torch 2.15.0,
transformers 5.24.0 and peft 0.21.2, one thread, fp32):

    python3 tests/parity/make_lora_fixtures.py tests/parity
"""
import copy
import json
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import (AutoConfig, AutoModelForCausalLM, BertConfig,
                          BertForSequenceClassification, T5Config, T5ForConditionalGeneration)

from make_causal_fixtures import BATCHES, GRADIENTS, LENGTH, ROWS, VOCAB, norms_of
from make_wrapper_fixtures import WRAPPERS, config_of
from training import add_gradients, add_losses, save

SMALL = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
             bos_token_id=0, eos_token_id=0, pad_token_id=None, attn_implementation="eager")
GPT2 = dict(vocab_size=VOCAB, n_embd=16, n_layer=2, n_head=2, n_positions=12, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
T5 = dict(vocab_size=VOCAB, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_heads=2,
          relative_attention_num_buckets=8, relative_attention_max_distance=12, dropout_rate=0.0,
          decoder_start_token_id=0, feed_forward_proj="gated-gelu")
BERT = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=24, max_position_embeddings=12, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, num_labels=3,
            problem_type="single_label_classification")
CASES = {
    "gpt2": ("gpt2", GPT2, dict(r=2, lora_alpha=6, target_modules="all-linear",
                                fan_in_fan_out=True, task_type="CAUSAL_LM")),
    "llama": ("llama", dict(**SMALL, tie_word_embeddings=False),
              dict(r=3, lora_alpha=4, target_modules=["q_proj", "v_proj", "down_proj"],
                   modules_to_save=["lm_head"], task_type="CAUSAL_LM")),
    "phi3": ("phi3", SMALL, dict(r=2, lora_alpha=3, use_rslora=True, task_type="CAUSAL_LM",
                                 target_modules=r"model\.layers\.\d+\..*(qkv|o|gate_up)_proj",
                                 rank_pattern={"o_proj": 3},
                                 alpha_pattern={r"layers\.1\.self_attn\.qkv_proj": 5})),
    "qwen3": ("qwen3", dict(**SMALL, head_dim=6),
              dict(r=2, lora_alpha=4, target_modules="all-linear", task_type="CAUSAL_LM")),
    "gemma3": ("gemma3", dict(**SMALL, head_dim=6, family="gemma3_text", sliding_window=3),
               dict(r=2, lora_alpha=4, task_type="CAUSAL_LM", rank_pattern={"o_proj": 3},
                    target_modules=r".*language_model\..*\.(q_proj|o_proj|down_proj)")),
    "t5": ("t5", T5, dict(r=2, lora_alpha=4, target_modules="all-linear", task_type="SEQ_2_SEQ_LM")),
    "bert": ("bert", BERT, dict(r=2, lora_alpha=4, target_modules=["query", "value", "dense"],
                  task_type="SEQ_CLS")),
}


def our_name(name):
    name = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
    return name.replace(".modules_to_save.default.", ".").replace(".default.", ".")


class Named(torch.nn.Module):
    """A PEFT model whose parameters have the names of the base model's, and whose gradients are
    those that are trained."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        return self.model(**inputs)

    def named_parameters(self, *arguments, **more):
        for name, value in self.model.named_parameters():
            if value.requires_grad:
                yield our_name(name), value


def data_of(kind):
    data = dict(ids=torch.randint(1, VOCAB, (BATCHES, ROWS, LENGTH)))
    if kind == "bert":
        data["labels"] = torch.randint(0, BERT["num_labels"], (BATCHES, ROWS))
    elif kind == "t5":
        data["labels"] = torch.randint(1, VOCAB, (BATCHES, ROWS, 5))
    else:
        data["labels"] = data["ids"].clone()
    return data


def inputs_of(data, b, order=slice(None)):
    return dict(input_ids=data["ids"][b][order], labels=data["labels"][b][order])


def exact_loss(kind, model, inputs):
    """In the model's precision."""
    logits, labels = model(**inputs).logits, inputs["labels"]
    if kind not in ("bert", "t5"):
        logits, labels = logits[:, :-1], labels[:, 1:]
    return torch.nn.functional.cross_entropy(logits.reshape(labels.numel(), -1), labels.reshape(-1))


def make(kind, keys):
    if kind == "t5":
        return T5ForConditionalGeneration(T5Config(**keys))
    if kind in WRAPPERS:
        return WRAPPERS[kind][0](config_of(kind, **{**keys, "pad_token_id": 0}))
    if kind == "bert":
        return BertForSequenceClassification(BertConfig(**keys))
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **keys))


def write(folder, name, kind, keys, lora):
    torch.manual_seed(0)
    base = make(kind, keys).float()
    with torch.no_grad():
        for value in base.parameters():
            value.add_(0.05 * torch.randn_like(value))
    out = {"base." + n: v.detach().clone() for n, v in base.named_parameters()}
    config = base.config.to_dict()
    model = get_peft_model(base, LoraConfig(**lora))
    with torch.no_grad():
        for value in model.parameters():
            if value.requires_grad:
                value.add_(0.05 * torch.randn_like(value))
    model.eval()
    with tempfile.TemporaryDirectory() as place:
        model.save_pretrained(place)
        out.update({"peft." + n: v for n, v in load_file(place + "/adapter_model.safetensors").items()})
        with open(place + "/adapter_config.json") as file:
            adapter = json.load(file)
    data = data_of(kind)
    out.update(data)
    with torch.no_grad():
        out["logits"] = model(**inputs_of(data, 0)).logits
    merged = copy.deepcopy(model).merge_and_unload()
    out.update({"merged." + n: v.detach().clone() for n, v in merged.named_parameters()})
    named = Named(model)
    add_gradients(out, named,
                  lambda m, b, order: exact_loss(kind, m, inputs_of(data, b, order)), GRADIENTS,
                  norms_of(base))
    print(name, *add_losses(out, named, lambda m, step: m(**inputs_of(data, step % BATCHES)).loss,
                            lambda n: n.endswith("bias")))
    save(out, f"{folder}/lora_{name}.safetensors",
         metadata={"format": "pt", "config": json.dumps(config), "adapter": json.dumps(adapter)})


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, case in CASES.items():
        if len(sys.argv) < 3 or name in sys.argv[2:]:
            write(sys.argv[1] if len(sys.argv) > 1 else ".", name, *case)
