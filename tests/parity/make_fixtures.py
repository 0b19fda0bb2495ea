#!/usr/bin/env python3
"""Writes the fixtures of the parity tests: what PyTorch and Hugging Face's GPT-2 compute.

Needs torch, transformers, safetensors and numpy (any recent versions; the committed files were made
with torch 2.15.0 and transformers 5.x, one thread, fp32):

    python3 tests/parity/make_fixtures.py tests/parity
"""
import copy
import sys

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2Model

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

    def forward(self, ids):
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


def batches():
    generator = torch.Generator().manual_seed(7)
    for _ in range(STEPS):
        ids = torch.randint(1, ITEMS, (ROWS, LENGTH), generator=generator)
        lengths = torch.randint(2, LENGTH + 1, (ROWS,), generator=generator)
        ids[torch.arange(LENGTH)[None] >= lengths[:, None]] = 0
        yield ids, lengths


def main(folder):
    torch.set_num_threads(1)
    for activation in ("gelu", "gelu_new"):
        torch.manual_seed(0)
        model = Session(activation).float()
        with torch.no_grad():  # away from the special points of fresh weights
            model.items.weight.mul_(0.1)
            for _, value in model.named():
                value.add_(0.02 * torch.randn_like(value))
        named = dict(model.named())
        out = {"weight." + name: value.detach().clone() for name, value in named.items()}
        no_decay = [v for n, v in named.items() if ".ln_" in n or n.endswith("bias")]
        decay = [v for n, v in named.items() if not (".ln_" in n or n.endswith("bias"))]
        optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": DECAY}, {"params": no_decay, "weight_decay": 0.0}],
            lr=LR, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1 - s / STEPS)
        # The first gradient in double precision, and as PyTorch rounds it in single precision.
        exact = copy.deepcopy(model).double()
        exact(next(iter(batches()))[0]).backward()
        out.update({"grad." + name: value.grad.clone() for name, value in exact.named()})
        losses, norms = [], []
        for step, (ids, lengths) in enumerate(batches()):
            loss = model(ids)
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
        save_file(out, f"{folder}/session_{activation}.safetensors", metadata={"format": "pt"})
        print(activation, losses[0], losses[-1])


main(sys.argv[1] if len(sys.argv) > 1 else ".")
