#!/usr/bin/env python3
"""Writes the fixtures of causal_test.cpp: what Hugging Face's GPT-2 and Llama compute.

Needs torch, transformers and safetensors (the committed files were made with torch 2.15.0 and
transformers 5.23.0, one thread, fp32):

    python3 tests/parity/make_causal_fixtures.py tests/parity
"""
import json
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from training import add_gradients, add_losses, hub_named, moved, save

VOCAB, LENGTH, ROWS, BATCHES, GRADIENTS = 61, 8, 3, 5, 3

GPT2 = dict(vocab_size=VOCAB, n_embd=16, n_layer=2, n_head=2, n_positions=12, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
LLAMA = dict(vocab_size=VOCAB, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=16,
             attention_bias=True, mlp_bias=True, bos_token_id=0, eos_token_id=0,
             rope_parameters={"rope_type": "default", "rope_theta": 100.0})


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 100.0, **more}}


# Other configs that the same weights fit.
GPT2_VARIANTS = {
    "by_layer": dict(scale_attn_by_inverse_layer_idx=True),
    "unscaled": dict(scale_attn_weights=False),
    "upcast": dict(reorder_and_upcast_attn=True, attn_implementation="eager"),
    "relu": dict(activation_function="relu"),
    "quick_gelu": dict(activation_function="quick_gelu"),
    "untied": dict(tie_word_embeddings=False),
}
LLAMA_VARIANTS = {
    "linear": rope("linear", factor=4.0),
    "dynamic": dict(max_position_embeddings=4, **rope("dynamic", factor=3.0)),
    "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=64),
    "yarn_mscale": rope("yarn", factor=8.0, original_max_position_embeddings=32, mscale=0.7,
                        mscale_all_dim=1.1, beta_fast=16.0, beta_slow=2.0, truncate=False),
    "llama3": rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64),
    "tied": dict(tie_word_embeddings=True),
    "gelu": dict(hidden_act="gelu"),
}


def without_decay(name):
    return name.endswith("bias") or ".ln_" in name or "norm" in name


def balancing(config, router_logits):
    """The loss that balances experts, in the precision of the logits."""
    probs = torch.cat([logits.softmax(-1) for logits in router_logits])
    chosen = probs.topk(config.num_experts_per_tok, dim=-1).indices
    shares = torch.nn.functional.one_hot(chosen, probs.shape[1]).to(probs.dtype).sum(1).mean(0)
    return config.router_aux_loss_coef * probs.shape[1] * (shares * probs.mean(0)).sum()


def loss_of(model, ids, labels=None):
    """The model's own loss, but in the model's precision."""
    out = model(input_ids=ids)
    labels = (ids if labels is None else labels)[:, 1:]
    loss = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), labels.reshape(-1))
    config = model.config.get_text_config()
    if getattr(config, "output_router_logits", False):
        loss = loss + balancing(config, out.router_logits)
    return loss


def norms_of(model):
    return tuple({type(m) for m in model.modules() if type(m).__name__.endswith("RMSNorm")})


def write(folder, name, config_type, model_type, keys, variants, more=lambda *_: None):
    """more(out, weights, model of a variant) adds what else a test reads."""
    torch.manual_seed(0)
    model = model_type(config_type(**keys)).float()
    start = moved(model)
    ids = torch.randint(0, keys["vocab_size"], (BATCHES, ROWS, LENGTH))
    labels = torch.where(torch.rand(ROWS, LENGTH) < 0.4, -100, ids[1])
    mask = torch.ones(ROWS, LENGTH, dtype=torch.bool)
    mask[0, :3] = mask[1, 5:] = False
    out = {"weight." + n: v for n, v in hub_named(model, start).items()}
    out.update(ids=ids, labels=labels, key_mask=mask.to(torch.uint8))
    model.eval()
    with torch.no_grad():
        out["logits"] = model(input_ids=ids[0]).logits
        out["masked_logits"] = model(input_ids=ids[0], attention_mask=mask.long()).logits
        out["labels_loss"] = model(input_ids=ids[1], labels=labels).loss.double().view(1)
    configs = {"": model.config.to_dict()}
    more(out, start, lambda variant: model_type(config_type(**{**keys, **variants.get(variant, {})})))
    for variant, more in variants.items():
        other = model_type(config_type(**{**keys, **more})).float().eval()
        if variant == "untied":
            out["untied.lm_head.weight"] = other.lm_head.weight.detach().clone()
        tied = other.config.tie_word_embeddings
        other.load_state_dict({n: v for n, v in start.items() if not (tied and "lm_head" in n)},
                              strict=False)
        with torch.no_grad():
            out["logits." + variant] = other(input_ids=ids[0]).logits
        configs[variant] = other.config.to_dict()
    add_gradients(out, model, lambda m, b, order: loss_of(m, ids[b][order]), GRADIENTS,
                  norms_of(model))
    print(name, *add_losses(
        out, model, lambda m, step: m(input_ids=ids[step % BATCHES], labels=ids[step % BATCHES]).loss,
        without_decay))
    save(out, f"{folder}/causal_{name}.safetensors",
              metadata={"format": "pt", "configs": json.dumps(configs)})


def main(folder):
    torch.set_num_threads(1)
    write(folder, "gpt2", GPT2Config, GPT2LMHeadModel, GPT2, GPT2_VARIANTS)
    write(folder, "llama", LlamaConfig, LlamaForCausalLM, LLAMA, LLAMA_VARIANTS)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
