#!/usr/bin/env python3
"""Writes the fixtures of causal_test.cpp for families of decoders: what Hugging Face's models compute.

Needs torch, transformers and safetensors (the committed files were made with torch 2.15.0 and
transformers 5.24.0, one thread, fp32). Attention is `eager`: the other kinds drop caps on scores.

    python3 tests/parity/make_decoder_fixtures.py tests/parity [family ...]
"""
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from make_causal_fixtures import rope, write

SMALL = dict(vocab_size=37, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
             bos_token_id=0, eos_token_id=0, attn_implementation="eager",
             rope_parameters={"rope_type": "default", "rope_theta": 100.0})
WINDOW = dict(use_sliding_window=True, sliding_window=3)
MIXED = dict(layer_types=["sliding_attention", "full_attention"], sliding_window=3)
BY_TYPE = {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 100.0},
                               "sliding_attention": {"rope_type": "default", "rope_theta": 30.0}}}
PROPORTIONAL = {"rope_parameters": {**BY_TYPE["rope_parameters"], "full_attention": {
    "rope_type": "proportional", "rope_theta": 100.0, "partial_rotary_factor": 0.5}}}
SCALED = {"rope_parameters": {**BY_TYPE["rope_parameters"],
                              "full_attention": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0}}}
YARN = {"rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
                            "original_max_position_embeddings": 4, "beta_fast": 8.0, "beta_slow": 1.0,
                            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}}
# Grouped products want multiples of 16 bytes, and no double precision.
EAGER = dict(experts_implementation="eager")
DELTA = dict(head_dim=8, linear_key_head_dim=6, linear_value_head_dim=5, linear_num_key_heads=2,
             linear_num_value_heads=4, full_attention_interval=2,
             rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.25})
# Of each family its keys, and variants that the same weights fit.
FAMILIES = {
    "granite": (dict(embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.4,
                     attention_multiplier=0.2, attention_bias=True, mlp_bias=True), {}),
    "mistral": (dict(num_attention_heads=6, num_key_value_heads=3, head_dim=4, sliding_window=3),
                {"whole": dict(sliding_window=None), "wide": dict(sliding_window=8)}),
    "olmo2": (dict(pad_token_id=1), {"linear": rope("linear", factor=4.0)}),
    "qwen2": (dict(max_window_layers=1, **WINDOW),
              {"whole": dict(use_sliding_window=False), "types": dict(MIXED)}),
    "qwen3": (dict(num_attention_heads=5, num_key_value_heads=1, head_dim=6),
              {"windows": dict(max_window_layers=0, **WINDOW), "tied": dict(tie_word_embeddings=True)}),
    "qwen3_5_text": (dict(head_dim=8, layer_types=["linear_attention", "full_attention"], linear_key_head_dim=6,
                          linear_value_head_dim=5, linear_num_key_heads=2, linear_num_value_heads=4,
                          rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.25}),
                     {"tied": dict(tie_word_embeddings=True),
                      "half": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0,
                                                   "partial_rotary_factor": 0.5}}}),
    "qwen3_5_moe_text": (dict(**EAGER, **DELTA, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=10,
                              shared_expert_intermediate_size=14, output_router_logits=True, router_aux_loss_coef=0.2),
                         {"tied": dict(tie_word_embeddings=True), "three": dict(num_experts_per_tok=3)}),
    "qwen3_next": (dict(**EAGER, **DELTA, num_hidden_layers=3, mlp_only_layers=[1], num_experts=6,
                        num_experts_per_tok=2, moe_intermediate_size=10, shared_expert_intermediate_size=12),
                   {"as_they_are": dict(norm_topk_prob=False), "half": {"rope_parameters": {
                       "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}}}),
    "smollm3": (dict(no_rope_layer_interval=2, tie_word_embeddings=True, pad_token_id=2),
                {"windows": dict(WINDOW), "list": dict(no_rope_layers=[0, 1])}),
    "gemma2": (dict(head_dim=6, query_pre_attn_scalar=10, attn_logit_softcapping=0.7,
                    final_logit_softcapping=1.5, pad_token_id=0, **MIXED),
               {"unbounded": dict(attn_logit_softcapping=None, final_logit_softcapping=None)}),
    "gemma3_text": (dict(hidden_size=20, head_dim=6, query_pre_attn_scalar=10, pad_token_id=0, **MIXED, **BY_TYPE),
                    {"bounded": dict(final_logit_softcapping=1.5), "linear": SCALED}),
    # As E2B and E4B; as 12B and 31B.
    "gemma4_text": (dict(hidden_size=20, num_hidden_layers=4, head_dim=6, global_head_dim=8, pad_token_id=0,
                         layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=3,
                         num_kv_shared_layers=2, use_double_wide_mlp=True, hidden_size_per_layer_input=6,
                         vocab_size_per_layer_input=37, final_logit_softcapping=1.5, **PROPORTIONAL),
                    {"unbounded": dict(final_logit_softcapping=None), "wide": dict(sliding_window=8), "turning": {
                        "rope_parameters": {**PROPORTIONAL["rope_parameters"], "full_attention": {
                            "rope_type": "proportional", "rope_theta": 100.0, "factor": 2.0}}}}),
    "gemma4_31b": (dict(model="gemma4_text", hidden_size=20, head_dim=6, global_head_dim=8, attention_k_eq_v=True,
                        num_global_key_value_heads=1, hidden_size_per_layer_input=0, pad_token_id=0,
                        use_bidirectional_attention="vision", **MIXED, **PROPORTIONAL),
                   {"bounded": dict(final_logit_softcapping=1.5)}),
    # Equal widths: transformers cuts the convolution into three equal parts where it saves it.
    "olmo_hybrid": (dict(pad_token_id=1, layer_types=["linear_attention", "full_attention"], linear_key_head_dim=6,
                         linear_value_head_dim=3, linear_num_key_heads=2, linear_num_value_heads=4),
                    {"positive": dict(linear_allow_neg_eigval=False),
                     "still": {"rope_parameters": {"rope_type": "default", "rope_theta": None}}}),
    "olmo3": (dict(hidden_size=20, num_attention_heads=5, num_key_value_heads=1, pad_token_id=1, **MIXED, **BY_TYPE), {"linear": SCALED}),
    "ministral3": (dict(num_attention_heads=6, num_key_value_heads=3, head_dim=4, pad_token_id=3,
                        **YARN), {"windows": dict(sliding_window=3)}),
    "gpt_oss": (dict(**EAGER, **MIXED, num_local_experts=4, num_experts_per_tok=2, head_dim=6, swiglu_limit=0.4,
                     output_router_logits=True, router_aux_loss_coef=0.2),
                {"whole": dict(layer_types=["full_attention"] * 2), "biasless": dict(attention_bias=False),
                 "wide": dict(swiglu_limit=7.0)}),
    "mixtral": (dict(**EAGER, num_local_experts=4, num_experts_per_tok=2, intermediate_size=12),
                {"windows": dict(sliding_window=3), "one": dict(num_experts_per_tok=1),
                 "all": dict(num_experts_per_tok=4)}),
    "olmoe": (dict(**EAGER, num_experts=5, num_experts_per_tok=3, pad_token_id=1, intermediate_size=10,
                   output_router_logits=True, router_aux_loss_coef=0.3),
              {"clipped": dict(clip_qkv=0.4), "normalised": dict(norm_topk_prob=True)}),
    "qwen2_moe": (dict(**EAGER, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=10,
                       shared_expert_intermediate_size=14, num_hidden_layers=3, mlp_only_layers=[1],
                       output_router_logits=True, router_aux_loss_coef=0.2),
                  {"windows": dict(max_window_layers=1, **WINDOW), "normalised": dict(norm_topk_prob=True),
                   "biasless": dict(qkv_bias=False)}),
    "qwen3_moe": (dict(**EAGER, num_attention_heads=5, num_key_value_heads=1, head_dim=6, num_experts=6,
                       num_experts_per_tok=2, moe_intermediate_size=10, norm_topk_prob=True),
                  {"windows": dict(WINDOW), "tied": dict(tie_word_embeddings=True)}),
    "phi3": (dict(pad_token_id=0, num_attention_heads=4, num_key_value_heads=2), {
        "windows": dict(sliding_window=3),
        "part": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0,
                                     "partial_rotary_factor": 0.5}},
        "short": dict(original_max_position_embeddings=8, rope_parameters={
            "rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.5],
            "long_factor": [2.0, 3.0], "partial_rotary_factor": 1.0}),
        "long": dict(original_max_position_embeddings=4, rope_parameters={
            "rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.5],
            "long_factor": [2.0, 3.0], "partial_rotary_factor": 1.0})}),
}

NEW, PROMPTS = 6, 4


def decoder_config(family, model=None, **keys):
    """Of a family's fixture, which is of that `model` where it says so."""
    return AutoConfig.for_model(model or family, **keys)


SCALE = 5.0  # of the matrices, so that texts do not repeat one token


def greedy(model, prompt):
    """The best tokens, and whether no other comes near."""
    out = model.generate(torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, pad_token_id=0,
                         eos_token_id=None, output_scores=True, return_dict_in_generate=True)
    best = [(scores[0].topk(2).values, scores.abs().max()) for scores in out.scores]
    clear = all(two[0] - two[1] > 1e-3 * most for two, most in best)
    return out.sequences[0, len(prompt):].tolist(), clear


def add_texts(variants):
    """Prompts of several lengths and how they go on, by variant."""
    def add(out, weights, make):
        generator = torch.Generator().manual_seed(3)
        for variant in ["", *variants]:
            model = make(variant).float().eval()
            model.generation_config.eos_token_id = None
            tied = model.config.tie_word_embeddings
            model.load_state_dict({n: v * SCALE if v.dim() == 2 or ".experts." in n else v for n, v in weights.items()
                                   if not (tied and "lm_head" in n)}, strict=False)
            found = 0
            while found < PROMPTS:
                length = [7, 1, 9, 4][found]
                prompt = torch.randint(4, SMALL["vocab_size"], (length,), generator=generator).tolist()
                text, clear = greedy(model, prompt)
                if not clear:
                    continue
                out[f"text.{variant}.{found}"] = torch.tensor(prompt + text)
                found += 1
    return add


def main(folder, *families):
    torch.set_num_threads(1)
    for family in families or FAMILIES:
        keys, variants = FAMILIES[family]
        write(folder, family, lambda **k: decoder_config(family, **k),
              AutoModelForCausalLM.from_config, {**SMALL, **keys}, variants,
              add_texts([v for v in variants if v not in ("short", "long", "tied")]))


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["."]))
