"""What the makers of fixtures of session models have in common: draws, batches, a training run."""
import copy
import math

import torch
from safetensors.torch import save_file

ITEMS, D, LAYERS, HEADS, LENGTH, ROWS, STEPS = 60, 16, 2, 4, 9, 7, 20
LR, DECAY, CLIP = 1e-2, 0.05, 1.0


WORD = (1 << 64) - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def hash_combine(a, b):
    return mix64(a ^ mix64(b))


def philox(key, counter):
    """The four words of Philox4x32-10."""
    c, k = [counter & 0xFFFFFFFF, counter >> 32, 0, 0], [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform01(key, counter):
    """The first double, as convoy/base/random.h has it."""
    c = philox(key, counter)
    return (((c[0] << 21) ^ (c[1] >> 11)) & ((1 << 53) - 1)) * 2.0 ** -53


def gumbel(key, count):
    """convoy/base/gumbel.cpp in other words, which draws four words of 16 counters at a time."""
    words = [philox(key, (i // 64) * 16 + i % 16)[i % 64 // 16] for i in range(count)]
    return [-math.log(-math.log1p(-(word + 0.5) * 2.0 ** -32)) for word in words]


def hidden_items(ids, step, probability=0.3, seed=0):
    """Which items masked-item training hides: convoy/masking/item_masking.cpp in other words."""
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


def permutation(ids, step, probability=0.3, max_span=5, permute_all=False, seed=0):
    """Which items plm asks for, and who sees whom: convoy/masking/item_masking.cpp in other words."""
    rows, length = ids.shape
    asked = torch.zeros_like(ids, dtype=torch.bool)
    visible = torch.zeros(rows, length, length, dtype=torch.bool)
    step_key = hash_combine(mix64(seed), step)
    for row in range(rows):
        key = hash_combine(hash_combine(step_key, 0x7370616E), row)
        order_key = hash_combine(hash_combine(step_key, 0x6F726472), row)
        places = [t for t in range(length) if ids[row, t] != 0]
        chosen, begin, draw = set(), 0, 0
        while begin < len(places):
            span = 1 + int(uniform01(key, draw) * max_span)
            stretch = int(span / probability)
            first = begin + int(uniform01(key, draw + 1) * (stretch - span + 1))
            chosen |= set(places[first:first + span])
            begin, draw = begin + stretch, draw + 2
        if len(chosen) in (0, len(places)):
            chosen ^= {places[int(uniform01(key, 1 << 40) * len(places))]}
        order = {t: uniform01(order_key, t) for t in places if permute_all or t in chosen}
        for i in range(length):
            for j in places:
                visible[row, i, j] = (j not in order) or (i in order and order[j] < order[i])
        asked[row, sorted(chosen)] = True
    return asked, visible


def without_decay(name):
    norms = (".ln_", ".LayerNorm.", "layer_norm", "layernorm.", ".norm_")
    return name.endswith("bias") or any(norm in name for norm in norms)


def batches():
    generator = torch.Generator().manual_seed(7)
    for _ in range(STEPS):
        ids = torch.randint(1, ITEMS, (ROWS, LENGTH), generator=generator)
        lengths = torch.randint(2, LENGTH + 1, (ROWS,), generator=generator)
        ids[torch.arange(LENGTH)[None] >= lengths[:, None]] = 0
        yield ids, lengths


def parts(name, value):
    """As convoy has them: RecTools stacks queries, keys and values, and has biases as vectors."""
    if name.endswith((".time_weights", ".pos_weights")):
        return [(name, value[:, None])]
    if ".in_proj_" not in name:
        return [(name, value)]
    names = [name.replace("in_proj_", part + ".") for part in ("query", "key", "value")]
    return zip(names, value.chunk(3))


def values(named):
    return {n: v.detach().clone() for name, value in named for n, v in parts(name, value)}


def write(folder, name, model):
    with torch.no_grad():  # away from the special points of fresh weights
        model.items.weight.mul_(0.1)
        for _, value in model.named():
            value.add_(0.02 * torch.randn_like(value))
    named = dict(model.named())
    out = {"weight." + n: v for n, v in values(named.items()).items()}
    optimizer = torch.optim.AdamW(
        [{"params": [v for n, v in named.items() if not without_decay(n)], "weight_decay": DECAY},
         {"params": [v for n, v in named.items() if without_decay(n)], "weight_decay": 0.0}],
        lr=LR, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1 - s / STEPS)
    # The first gradient in double precision, and as PyTorch rounds it in single precision.
    exact = copy.deepcopy(model).double()
    exact(next(iter(batches()))[0], 0).backward()
    out.update({"grad." + n: v for n, v in values((n, v.grad) for n, v in exact.named()).items()})
    losses, norms = [], []
    for step, (ids, lengths) in enumerate(batches()):
        loss = model(ids, step)
        loss.backward()
        if step == 0:
            rounded = values((n, v.grad) for n, v in named.items())
            out.update({"rounded." + n: v for n, v in rounded.items()})
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


def make(kinds, folder, *names):
    """Writes the fixtures `names` of `kinds`, or all."""
    torch.set_num_threads(1)
    for name in names or kinds:
        torch.manual_seed(0)
        write(folder, name, kinds[name]().float())
