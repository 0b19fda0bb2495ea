#!/usr/bin/env python3
"""The session model of bench_2k.toml and bench_50k.toml in PyTorch and Hugging Face, as people write it:
GPT2Model over an item embedding, tied full softmax, fused AdamW, DistributedDataParallel with bucket views.

    session.py --items 2000 [--ranks 2] [--steps 30]      prints samples/s of the steady steps

Needs torch and transformers (pip install torch transformers).
"""
import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2Model

BATCH, LENGTH, WIDTH, LAYERS, HEADS, WARMUP = 128, 20, 64, 2, 4, 5


class SessionModel(torch.nn.Module):
    def __init__(self, items):
        super().__init__()
        self.items = torch.nn.Embedding(items + 1, WIDTH, padding_idx=0)
        self.body = GPT2Model(GPT2Config(
            n_layer=LAYERS, n_embd=WIDTH, n_head=HEADS, n_positions=LENGTH, vocab_size=1,
            bos_token_id=None, eos_token_id=None, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
        self.body.wte.weight.requires_grad_(False)

    def forward(self, ids):
        hidden = self.body(inputs_embeds=self.items(ids)).last_hidden_state[:, :-1]
        target = ids[:, 1:]
        valid = target != 0
        return cross_entropy(hidden[valid] @ self.items.weight.T, target[valid])


def run(rank, options):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = SessionModel(options.items)
    if options.ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port),
                          GLOO_SOCKET_IFNAME="lo")
        dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    seconds = []
    for _ in range(WARMUP + options.steps):
        ids = torch.randint(1, options.items + 1, (BATCH, LENGTH))
        began = time.perf_counter()
        model(ids).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - began)
    if rank == 0:
        step = statistics.median(seconds[WARMUP:])
        print(f"{BATCH * options.ranks / step:.0f}", flush=True)
    if options.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--port", type=int, default=29572)
    options = parser.parse_args()
    if options.ranks == 1:
        run(0, options)
    else:
        torch.multiprocessing.spawn(run, (options,), nprocs=options.ranks)
