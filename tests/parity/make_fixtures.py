#!/usr/bin/env python3
"""Writes the fixtures of the parity tests: what PyTorch and Hugging Face's GPT-2 and BERT compute.

Needs torch, transformers, safetensors and numpy (any recent versions; the committed files were made
with torch 2.15.0 and transformers 5.x, one thread, fp32):

    python3 tests/parity/make_fixtures.py tests/parity
"""
import copy
import sys

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

ITEMS, D, LAYERS, HEADS, LENGTH, ROWS, STEPS = 60, 16, 2, 4, 9, 7, 20
LR, DECAY, CLIP = 1e-2, 0.05, 1.0


class Session(torch.nn.Module):
    """Item embedding, GPT-2 body, head tied to the item embedding; id 0 is padding."""

    def __init__(self, activation):
        super().__init__()
        self.items = torch.nn.Embedding(ITEMS, D, padding_idx=0)
        self.body = GPT2Model(GPT2Config(
            n_layer=LAYERS, n_embd=D, n_head=HEADS, n_positions=LENGTH, vocab_size=1,
            activation_function=activation, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
        self.body.wte.weight.requires_grad_(False)

    def forward(self, ids, step):
        h = self.body(inputs_embeds=self.items(ids)).last_hidden_state[:, :-1]
        target = ids[:, 1:]
        valid = target != 0
        scores = h[valid] @ self.items.weight[1:].T
        return torch.nn.functional.cross_entropy(scores, target[valid] - 1)

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        for name, value in self.body.named_parameters():
            if value.requires_grad:
                yield "transformer." + name, value


WORD = (1 << 64) - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def hash_combine(a, b):
    return mix64(a ^ mix64(b))


def uniform01(key, counter):
    """The first double of Philox4x32-10, as convoy/base/random.h has it."""
    c, k = [counter & 0xFFFFFFFF, counter >> 32, 0, 0], [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return (((c[0] << 21) ^ (c[1] >> 11)) & ((1 << 53) - 1)) * 2.0 ** -53


def hidden_items(ids, step, probability=0.3, seed=0):
    """Which items masked-item training hides: convoy/models/session/masking.cpp in other words."""
    mask = torch.zeros_like(ids, dtype=torch.bool)
    step_key = hash_combine(hash_combine(mix64(seed), step), 0x6D61736B)
    for row in range(ids.shape[0]):
        key = hash_combine(step_key, row)
        places = [t for t in range(ids.shape[1]) if ids[row, t] != 0]
        hidden = [t for t in places if uniform01(key, t) < probability]
        if len(places) < 2:
            continue
        if len(hidden) in (0, len(places)):
            one = places[int(uniform01(key, 1 << 40) * len(places))]
            hidden = [t for t in places if (t in hidden) != (t == one)]
        mask[row, hidden] = True
    return mask


class MaskedSession(torch.nn.Module):
    """Item embedding, BERT body, hidden items predicted by the tied head."""

    def __init__(self, activation):
        super().__init__()
        self.items = torch.nn.Embedding(ITEMS, D, padding_idx=0)
        self.mask = torch.nn.Parameter(0.1 * torch.randn(D))
        self.body = BertModel(BertConfig(
            num_hidden_layers=LAYERS, hidden_size=D, num_attention_heads=HEADS, vocab_size=1,
            intermediate_size=4 * D, max_position_embeddings=LENGTH + 1, hidden_act=activation,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, layer_norm_eps=1e-5),
            add_pooling_layer=False)
        self.body.embeddings.word_embeddings.weight.requires_grad_(False)

    def forward(self, ids, step):
        hidden = hidden_items(ids, step)
        x = torch.where(hidden[..., None], self.mask, self.items(ids))
        real = (ids != 0) | hidden
        h = self.body(inputs_embeds=x, attention_mask=real.to(x.dtype)).last_hidden_state
        scores = h[hidden] @ self.items.weight[1:].T
        return torch.nn.functional.cross_entropy(scores, ids[hidden] - 1)

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        yield "masked_item_embedding", self.mask
        for name, value in self.body.named_parameters():
            if value.requires_grad:
                yield "bert." + name, value


def without_decay(name):
    return name.endswith("bias") or ".ln_" in name or ".LayerNorm." in name


def batches():
    generator = torch.Generator().manual_seed(7)
    for _ in range(STEPS):
        ids = torch.randint(1, ITEMS, (ROWS, LENGTH), generator=generator)
        lengths = torch.randint(2, LENGTH + 1, (ROWS,), generator=generator)
        ids[torch.arange(LENGTH)[None] >= lengths[:, None]] = 0
        yield ids, lengths


def write(folder, name, model):
    with torch.no_grad():  # away from the special points of fresh weights
        model.items.weight.mul_(0.1)
        for _, value in model.named():
            value.add_(0.02 * torch.randn_like(value))
    named = dict(model.named())
    out = {"weight." + name: value.detach().clone() for name, value in named.items()}
    optimizer = torch.optim.AdamW(
        [{"params": [v for n, v in named.items() if not without_decay(n)], "weight_decay": DECAY},
         {"params": [v for n, v in named.items() if without_decay(n)], "weight_decay": 0.0}],
        lr=LR, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1 - s / STEPS)
    # The first gradient in double precision, and as PyTorch rounds it in single precision.
    exact = copy.deepcopy(model).double()
    exact(next(iter(batches()))[0], 0).backward()
    out.update({"grad." + name: value.grad.clone() for name, value in exact.named()})
    losses, norms = [], []
    for step, (ids, lengths) in enumerate(batches()):
        loss = model(ids, step)
        loss.backward()
        if step == 0:
            out.update({"rounded." + n: v.grad.clone() for n, v in named.items()})
        norms.append(torch.nn.utils.clip_grad_norm_(list(named.values()), CLIP).item())
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        out[f"ids.{step}"] = ids
        out[f"lengths.{step}"] = lengths
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    out["norms"] = torch.tensor(norms, dtype=torch.float64)
    save_file(out, f"{folder}/session_{name}.safetensors", metadata={"format": "pt"})
    print(name, losses[0], losses[-1])


def main(folder):
    torch.set_num_threads(1)
    for name, kind, activation in (("gelu", Session, "gelu"), ("gelu_new", Session, "gelu_new"),
                                   ("bert", MaskedSession, "gelu")):
        torch.manual_seed(0)
        write(folder, name, kind(activation).float())


main(sys.argv[1] if len(sys.argv) > 1 else ".")
