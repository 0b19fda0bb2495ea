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
from transformers import (AutoModelForCausalLM, BertConfig, BertForMaskedLM, BertForSequenceClassification, GPT2Config,
                          GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, T5Config,
                          T5ForConditionalGeneration)

from make_decoder_fixtures import FAMILIES, decoder_config
from make_decoder_fixtures import SMALL as SMALL_DECODER
from make_wrapper_fixtures import WRAPPERS, config_of
from training import moved

# A model whose files have the matrices of all experts of a layer in one tensor, as the hub's do.
STACKED = "-stacked"
OFF = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
SMALL = dict(vocab_size=211, bos_token_id=0, eos_token_id=0)
BERT = dict(vocab_size=211, hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
            intermediate_size=96, max_position_embeddings=64, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, num_labels=3,
            problem_type="single_label_classification")
T5 = dict(vocab_size=211, num_layers=3, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0)


def untied(model):
    """transformers 5 ties whatever is asked for; files of version 4 have a head of their own."""
    head = torch.nn.Linear(48, 211, bias=False)
    model.lm_head, model.config.tie_word_embeddings = head, False
    model.all_tied_weights_keys.pop("lm_head.weight")
    return model


def larger(keys):
    """The keys with longer texts and more ids, which a second embedding has, too."""
    tables = [key for key in keys if key.startswith("vocab_size")]
    return {**keys, "max_position_embeddings": 64, **dict.fromkeys(tables, 211)}


def decoder(family):
    """Of the fixtures' keys, with no weight at the value that it begins with."""
    keys = larger({**SMALL_DECODER, **FAMILIES[family][0]})
    model = AutoModelForCausalLM.from_config(decoder_config(family, **keys))
    moved(model)
    return model


def wrapper(name):
    """Around such a decoder; parts that read images have their own weights, and the text part its own head."""
    keys = larger({**SMALL_DECODER, **WRAPPERS[name][2]})
    model = WRAPPERS[name][0](config_of(name, **keys))
    moved(model)
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
    "bert": lambda: BertForMaskedLM(BertConfig(**BERT)),
    "bert-classifier": lambda: BertForSequenceClassification(BertConfig(**BERT)),
    "t5": lambda: T5ForConditionalGeneration(T5Config(d_model=48, d_kv=8, d_ff=96, **T5)),
    "t5-gated-untied": lambda: untied(T5ForConditionalGeneration(T5Config(
        d_model=48, d_kv=16, d_ff=96, num_decoder_layers=2, feed_forward_proj="gated-gelu",
        tie_word_embeddings=False, **T5))),
    **{family: lambda family=family: decoder(family) for family in FAMILIES},
    **{name: lambda name=name: wrapper(name) for name in WRAPPERS},
    f"qwen3_5_moe{STACKED}": lambda: wrapper("qwen3_5_moe"),
    "gpt2-124m": lambda: GPT2LMHeadModel(GPT2Config(**OFF)),
}
LR = 1e-4


def data_of(model, length):
    """Four batches of two rows."""
    shape, config = (4, 2, length), model.config.get_text_config()
    ids = torch.randint(0, config.vocab_size, shape)
    if isinstance(model, BertForSequenceClassification):
        labels = torch.randint(0, config.num_labels, shape[:2])
    elif isinstance(model, BertForMaskedLM):
        labels = torch.where(torch.rand(shape) < 0.3, torch.randint(0, config.vocab_size, shape),
                             -100)
    elif config.is_encoder_decoder:
        labels = torch.randint(0, config.vocab_size, (4, 2, 20))
    else:
        labels = ids
    data = dict(input_ids=ids, labels=labels)
    if config.model_type == "bert":
        data["token_type_ids"] = (torch.arange(length) > length // 2).long().repeat(4, 2, 1)
    return data


def batch(data, index):
    return {name: values[index % len(values)] for name, values in data.items()}


def losses_of(model, data, steps):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.0, fused=True)
    out = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(**batch(data, step)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        out.append(loss.item())
    return torch.tensor(out, dtype=torch.float64)


def holds(found, wanted):
    """Whether all that `wanted` says is in `found`, which may say more."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(holds(found.get(key), value) for key, value in wanted.items())
    return json.dumps(found) == json.dumps(wanted)


def check(program, name):
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        large = name.endswith("m")
        model = MODELS[name]()
        model.save_pretrained(f"{folder}/there", save_original_format=not name.endswith(STACKED))
        model = model.float().eval()
        data = data_of(model, 128 if large else 48)
        with torch.no_grad():
            logits = model(**batch(data, 0)).logits
        # Labels that are the ids are the default.
        given = {n: v for n, v in data.items() if n == "input_ids" or v is not data["input_ids"]}
        save_file(given | {"logits": logits, "losses": losses_of(model, data, 20 if large else 100)},
                  f"{folder}/expected.safetensors")
        subprocess.run([program, "--gtest_also_run_disabled_tests", "--gtest_brief=1",
                        "--gtest_filter=ThereAndBack.*"], check=True,
                       env={**os.environ, "CONVOY_THERE_AND_BACK": folder})
        experts = {"experts_implementation": "eager"} if hasattr(model.config.get_text_config(), "num_experts") else {}
        back, there = (type(model).from_pretrained(f"{folder}/{way}", dtype=torch.float32, **experts).eval()
                       for way in ("back", "there"))
        assert os.path.exists(f"{folder}/back/model.safetensors.index.json")
        with torch.no_grad():
            same = torch.equal(back(**batch(data, 0)).logits, there(**batch(data, 0)).logits)
        weights = there.state_dict()
        same = same and all(torch.equal(value, weights[n]) for n, value in back.state_dict().items())
        changed = {key: (value, back.config.to_dict().get(key))
                   for key, value in there.config.to_dict().items()
                   if key not in ("dtype", "_name_or_path") and (key, value) != ("head_dim", None) and
                   not holds(back.config.to_dict().get(key), value)}
        print(f"{name}: logits {'equal' if same else 'DIFFER'}, config "
              f"{'equal' if not changed else changed}", flush=True)
        return same and not changed


def main(program, *names):
    torch.set_num_threads(1)
    sys.exit(0 if all([check(program, name) for name in names or list(MODELS)[:-1]]) else 1)


main(*sys.argv[1:])
