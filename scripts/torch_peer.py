#!/usr/bin/env python3
"""The same training step in PyTorch alone, beside which `convoy bench step` is read: GPT-2 124M, a Llama of 1.1B, or
sessions of 50 among 50,000 items.

torch_peer.py {gpt2,llama,session} [--compile [MODE]] [--fp32] [--batch N] [--hugging_face] prints one line of JSON. A step is forward,
loss, backward, clipping to 1 and fused AdamW on random ids, weights in fp32, products in bf16 by autocast; no dropout.
The model is that of this file, or transformers' own. Needs torch, and no network.
"""
import argparse
import dataclasses
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass
class Shape:
    vocabulary: int
    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    tied: bool
    batch: int       # rows of a step
    length: int


SHAPES = {
    "gpt2": Shape(50304, 768, 3072, 12, 12, 12, True, 16, 1024),
    "session": Shape(50000, 128, 512, 2, 4, 4, True, 512, 50),
    "llama": Shape(32000, 2048, 5632, 22, 32, 4, False, 4, 2048),
}


def rotary(shape, device):
    half = torch.arange(0, shape.width // shape.heads, 2, device=device).float()
    angles = torch.outer(torch.arange(shape.length, device=device).float(), 10000.0 ** (-half / (2 * len(half))))
    return torch.cat((angles.cos(), angles.cos()), -1), torch.cat((angles.sin(), angles.sin()), -1)


def rotated(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return (x * cosine + torch.cat((-second, first), -1) * sine).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, shape, bias):
        super().__init__()
        self.heads, self.key_heads, self.head = shape.heads, shape.key_heads, shape.width // shape.heads
        self.joint = nn.Linear(shape.width, (shape.heads + 2 * shape.key_heads) * self.head, bias=bias)
        self.out = nn.Linear(shape.width, shape.width, bias=bias)

    def forward(self, x, positions=None):
        rows, length, width = x.shape
        parts = self.joint(x).split([self.heads * self.head] + [self.key_heads * self.head] * 2, -1)
        query, key, value = (part.view(rows, length, -1, self.head).transpose(1, 2) for part in parts)
        if positions is not None:
            query, key = rotated(query, *positions), rotated(key, *positions)
        if self.key_heads != self.heads:
            key, value = (part.repeat_interleave(self.heads // self.key_heads, 1) for part in (key, value))
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(rows, length, width))


class Gpt2Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.before, self.between = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.attention = Attention(shape, True)
        self.up, self.down = nn.Linear(shape.width, shape.inner), nn.Linear(shape.inner, shape.width)

    def forward(self, x, positions):
        x = x + self.attention(self.before(x))
        return x + self.down(functional.gelu(self.up(self.between(x)), approximate="tanh"))


class LlamaLayer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.before, self.between = nn.RMSNorm(shape.width, 1e-6), nn.RMSNorm(shape.width, 1e-6)
        self.attention = Attention(shape, False)
        self.gate, self.up = (nn.Linear(shape.width, shape.inner, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x, positions):
        x = x + self.attention(self.before(x), positions)
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, family, shape, device):
        super().__init__()
        is_gpt2 = family != "llama"
        self.table = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.length, shape.width) if is_gpt2 else None
        self.layers = nn.ModuleList((Gpt2Layer if is_gpt2 else LlamaLayer)(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width) if is_gpt2 else nn.RMSNorm(shape.width, 1e-6)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        if shape.tied:
            self.head.weight = self.table.weight
        self.positions = None if is_gpt2 else rotary(shape, device)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.table(ids)
        if self.places is not None:
            x = x + self.places.weight[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x, self.positions)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def hugging_face(family, shape):
    """transformers' model of that shape, with torch's attention."""
    import transformers
    if family != "llama":
        config = transformers.GPT2Config(vocab_size=shape.vocabulary, n_positions=shape.length, n_embd=shape.width,
                                         n_layer=shape.layers, n_head=shape.heads, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    else:
        config = transformers.LlamaConfig(vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.inner,
                                          num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
                                          num_key_value_heads=shape.key_heads, max_position_embeddings=shape.length)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", choices=sorted(SHAPES))
    parser.add_argument("--compile", nargs="?", const="default", help="torch.compile, in this mode of its")
    parser.add_argument("--fp32", action="store_true", help="no autocast, no TF32")
    parser.add_argument("--hugging_face", action="store_true", help="the model of transformers")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, help="rows of a step")
    parser.add_argument("--layers", type=int, help="fewer, to try it")
    parser.add_argument("--length", type=int, help="of a row, to try it")
    parser.add_argument("--steps", type=int, default=30, help="that are timed")
    parser.add_argument("--warmup", type=int, default=5)
    args = parser.parse_args()
    shape = SHAPES[args.family]
    shape = dataclasses.replace(shape, batch=args.batch or shape.batch, layers=args.layers or shape.layers,
                                length=args.length or shape.length)
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_peer: torch sees no GPU")
    torch.manual_seed(1)
    with device:
        model = hugging_face(args.family, shape) if args.hugging_face else Model(args.family, shape, device)
        data = torch.randint(shape.vocabulary, (64, shape.batch, shape.length + 1))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model, mode=args.compile) if args.compile else model

    seconds = []
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        rows = data[step % len(data)]
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=not args.fp32):
            if args.hugging_face:  # it shifts the labels itself
                loss = run(input_ids=rows[:, :-1], labels=rows[:, :-1], use_cache=False).loss
            else:
                loss = run(rows[:, :-1], rows[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()  # waits, as who logs each step
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
    typical = statistics.median(seconds)
    out = {"model": args.family, "parameters": parameters, "compile": args.compile,
           "hugging_face": args.hugging_face, "torch": torch.__version__,
           "step_ms_median": 1e3 * typical, "samples_per_second": shape.batch / typical,
           "tokens_per_second": shape.batch * shape.length / typical}
    if device.type == "cuda":
        out["device"] = torch.cuda.get_device_name(device)
        out["peak_device_memory_bytes"] = torch.cuda.max_memory_allocated(device)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
