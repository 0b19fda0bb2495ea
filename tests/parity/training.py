"""What the makers of fixtures of whole models have in common: gradients and a training run."""
import contextlib
import copy
import itertools
import os

import torch
from safetensors.torch import load_file, save_file

GRADIENT_ROWS = 3
STEPS, LR, DECAY, CLIP = 100, 2e-3, 0.05, 1.0


def experts_named(config, named):
    """Tensors of a model with experts: files have a matrix of each."""
    mixtral = config.model_type == "mixtral"
    if config.model_type == "gpt_oss":
        return named
    names = {"gate": "w1", "up": "w3", "down": "w2"} if mixtral else {n: n + "_proj" for n in ("gate", "up", "down")}
    out = {}
    for name, value in named.items():
        if mixtral:
            name = name.replace(".mlp.", ".block_sparse_moe.")
        if not name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            out[name] = value
            continue
        before = name.rsplit(".", 1)[0]
        for e, matrix in enumerate(value):
            parts = {"down": matrix} if name.endswith("down_proj") else dict(zip(("gate", "up"), matrix.chunk(2)))
            out.update({f"{before}.{e}.{names[part]}.weight": m for part, m in parts.items()})
    return out


def moved(model):
    """Away from the special points of fresh weights; returns a copy of the weights."""
    named = dict(model.named_parameters())
    named.update({n: v for n, v in model.named_buffers() if n.endswith("layer_scalar")})
    with torch.no_grad():
        for name, value in named.items():  # else scores without a factor, and norms of tiny numbers, magnify rounding
            if not model.config.model_type.startswith("gemma4"):
                break
            if name.endswith("q_norm.weight"):
                value.mul_(0.35)
            if name.endswith(("per_layer_input_gate.weight", "per_layer_projection.weight")):
                value.mul_(20)
        for value in named.values():
            value.add_(0.05 * torch.randn_like(value))
    return {n: v.detach().clone() for n, v in named.items()}


def exact_norm(self, x):
    one_more = type(self).__name__.startswith(("Gemma", "Qwen3_5", "Qwen3Next"))
    epsilon = self.eps if one_more else self.variance_epsilon
    if type(self).__name__ == "Gemma4RMSNorm":
        factor = self.weight if self.with_scale else 1
    else:
        factor = 1 + self.weight if one_more else self.weight
    return factor * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon))


def hub_named(model, named):
    """Tensors by their names in the hub's files, which transformers joins and renames as it reads them."""
    config = getattr(model, "config", None)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    if hasattr(config, "num_experts_per_tok"):
        return experts_named(config, named)
    if getattr(config, "model_type", None) != "olmo_hybrid":
        return named
    keys, out = config.linear_num_key_heads * config.linear_key_head_dim, {}
    for n, v in named.items():
        if n.endswith("linear_attn.conv1d.weight"):
            for part, rows in zip("qkv", v.split([keys, keys, len(v) - 2 * keys])):
                out[n.replace("conv1d", f"{part}_conv1d")] = rows.clone()
            continue
        if n.startswith("model.layers.") and config.layer_types[int(n.split(".")[2])] == "linear_attention":
            n = n.replace("input_layernorm", "attention_layer_norm")
            n = n.replace("post_attention_layernorm", "feedforward_layer_norm")
        out[n] = v
    return out


@contextlib.contextmanager
def all_in_double(model):
    """Models with the gated delta rule compute that in fp32 whatever their dtype is: here in double."""
    if not any(type(m).__name__.endswith("GatedDeltaNet") for m in model.modules()):
        yield
        return
    to, to_float = torch.Tensor.to, torch.Tensor.float
    torch.Tensor.float = torch.Tensor.double
    torch.Tensor.to = lambda self, *given, **more: to(
        self, *(torch.float64 if x is torch.float32 else x for x in given),
        **{n: torch.float64 if x is torch.float32 else x for n, x in more.items()})
    try:
        yield
    finally:
        torch.Tensor.to, torch.Tensor.float = to, to_float


def gradient(model, loss):
    model.zero_grad()
    loss(model).backward()
    return hub_named(model, {n: v.grad.clone() for n, v in model.named_parameters()})


def add_gradients(out, model, loss_of, count, norm_type=()):
    """Gradients in double precision, and how far from them PyTorch's own fp32 is: by the luck of
    rounding that differs with the order of rows, so in the worst of them. loss_of(model, batch,
    order of rows)."""
    exact = copy.deepcopy(model).double()
    for module in exact.modules():
        if isinstance(module, norm_type):
            module.forward = exact_norm.__get__(module)
    orders = [list(order) for order in itertools.permutations(range(GRADIENT_ROWS))]
    given = slice(None)
    with all_in_double(exact):
        exact_of = [gradient(exact, lambda m: loss_of(m, b, given)) for b in range(count)]
    rounded_of = [[gradient(model, lambda m: loss_of(m, b, order)) for b in range(count)]
                  for order in orders]
    for n in exact_of[0]:
        out["grad." + n] = torch.stack([g[n] for g in exact_of]).float()
        errors = [sum((r[n] - e[n]).norm() ** 2 / e[n].norm() ** 2
                      for r, e in zip(rounded, exact_of)) for rounded in rounded_of]
        out["torch_error." + n] = (max(errors) / count).sqrt().view(1)


def add_losses(out, model, loss_of, without_decay):
    """Of AdamW with a linear schedule; loss_of(model, step)."""
    named = dict(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [v for n, v in named.items() if not without_decay(n)], "weight_decay": DECAY},
         {"params": [v for n, v in named.items() if without_decay(n)], "weight_decay": 0.0}],
        lr=LR, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1 - s / STEPS)
    model.train()
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(named.values(), CLIP)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    return losses[0], losses[-1]


def save(out, path, metadata):
    """Which kernels a processor takes is luck of rounding too: of an earlier run, perhaps on another
    processor, the larger errors stay. ATEN_CPU_CAPABILITY=avx2 and MKL_ENABLE_INSTRUCTIONS=AVX2
    play other processors."""
    before = load_file(path) if os.path.exists(path) else {}
    for n, v in out.items():
        if n.startswith("torch_error.") and n in before:
            out[n] = torch.maximum(v, before[n])
    save_file({n: v.contiguous() for n, v in out.items()}, path, metadata=metadata)
