#!/usr/bin/env python3
"""Writes dynamic_rope.safetensors and longrope.safetensors: results of Hugging Face's Llama with rope_type dynamic
and of its Phi-3 with longrope beyond the length that the angles are of, one row at a time, for a row's length changes
all of its angles there.

Needs torch, transformers and safetensors (the committed files were made with torch 2.15.0 and
transformers 5.24.0, one thread, fp32); reads causal_llama.safetensors and causal_phi3.safetensors beside them:

    python3 tests/parity/make_dynamic_rope_fixture.py tests/parity
"""
import json
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

LENGTHS, WIDEST, NEW = (3, 8, 5, 2), 8, 6
SCALE = 4.0  # of matrices where text goes on, so that no two logits are near


def write(folder, family, kind, projection, to):
    with safe_open(f"{folder}/causal_{family}.safetensors", "pt") as file:
        config = json.loads(file.metadata()["configs"])[kind]
        weights = {name[len("weight."):]: file.get_tensor(name)
                   for name in file.keys() if name.startswith("weight.")}
    def fresh(scale=1.0):  # a model keeps the longest length that it has seen
        of_family = AutoConfig.for_model(**config)
        model = AutoModelForCausalLM.from_config(of_family, attn_implementation="eager").float().eval()
        model.load_state_dict({n: w * scale if w.dim() == 2 else w for n, w in weights.items()})
        return model

    torch.manual_seed(1)
    ids = torch.randint(0, config["vocab_size"], (len(LENGTHS), WIDEST))
    out = {"ids": ids, "lengths": torch.tensor(LENGTHS)}
    gradient, losses, texts = None, [], {"true": [], "false": []}
    for row, length in enumerate(LENGTHS):
        alone = ids[row:row + 1, :length]
        model = fresh()
        logits = model(input_ids=alone).logits
        loss = torch.nn.functional.cross_entropy(logits[0, :-1], alone[0, 1:], reduction="sum")
        loss.backward()
        own = getattr(model.model.layers[0].self_attn, projection).weight.grad
        gradient = own if gradient is None else gradient + own
        losses.append(loss.detach().double())
        out[f"logits.{row}"] = logits[0].detach()
        for cache in texts:
            model = fresh(SCALE)
            text = model.generate(alone, attention_mask=torch.ones_like(alone), do_sample=False,
                                  max_new_tokens=NEW, use_cache=cache == "true", eos_token_id=None,
                                  pad_token_id=0)
            texts[cache].append(text[0, length:].tolist())
    out["loss"] = torch.stack(losses)
    out[f"grad.{projection}"] = gradient
    print(losses, texts)
    save_file(out, f"{folder}/{to}.safetensors",
              metadata={"format": "pt", "config": json.dumps(config), "scale": str(SCALE),
                        "new": str(NEW), "texts": json.dumps(texts)})


def main(folder):
    torch.set_num_threads(1)
    write(folder, "llama", "dynamic", "q_proj", "dynamic_rope")
    write(folder, "phi3", "long", "qkv_proj", "longrope")



main(sys.argv[1] if len(sys.argv) > 1 else ".")
