"""Trains Hugging Face's model on the rows of a run, for `convoy verify --against transformers`.

    python train_transformers.py FOLDER

FOLDER/run.json has the settings, FOLDER/start the model, FOLDER/rows.safetensors the micro-batches as
STEP.MICRO_BATCH.INPUT. Writes FOLDER/there as a run of convoy: a log line of each step, weights and moments.
"""
import contextlib
import json
import os
import sys

FAILED = 2  # exit code of what a person can mend


def leave(text):
    print(text, file=sys.stderr)
    sys.exit(FAILED)


try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    leave(f"{sys.executable} has no {error.name}")


def load_model(folder):
    with open(f"{folder}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    name = (config.get("architectures") or [config.get("model_type")])[0]
    kind = getattr(transformers, name, None)
    if kind is None or not hasattr(kind, "from_pretrained"):
        leave(f"transformers {transformers.__version__} has no {name}")
    return kind.from_pretrained(folder, dtype=torch.float32)


def optimizer_of(model, run):
    """AdamW with Hugging Face's rule of what decays."""
    decays = set(transformers.Trainer.get_decay_parameter_names(None, model))
    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    groups = [{"params": [weight for name, weight in named if (name in decays) == decay],
               "weight_decay": run["weight_decay"] if decay else 0.0} for decay in (True, False)]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=run["learning_rate"],
                             betas=(run["adam_beta1"], run["adam_beta2"]), eps=run["adam_epsilon"])


def micro_batches_of(rows, step):
    out = {}
    for name, tensor in rows.items():
        of_step, micro_batch, key = name.split(".", 2)
        if int(of_step) == step:
            out.setdefault(int(micro_batch), {})[key] = tensor
    return [out[key] for key in sorted(out)]


def in_wrapper(model):
    """Whether a language model is trained inside of a model with other parts."""
    return hasattr(model.config, "text_config")


def num_targets(model, batch):
    """Labels that count: those of a causal model begin with the second position."""
    labels = batch["labels"]
    is_causal = type(model).__name__.endswith(("ForCausalLM", "LMHeadModel")) or in_wrapper(model)
    return int(((labels[:, 1:] if is_causal else labels) != -100).sum())


def train_step(model, micro_batches, half):
    """Gradients of the mean over all targets; the mean."""
    counts = [num_targets(model, batch) for batch in micro_batches]
    total = 0.0
    for batch, count in zip(micro_batches, counts):
        if count == 0:
            continue
        with torch.autocast("cpu", dtype=torch.bfloat16) if half else contextlib.nullcontext():
            loss = model(**batch).loss
        part = loss.float() * (count / sum(counts))
        part.backward()
        total += part.item()
    return total


def experts_as_in_files(config, named):
    """Tensors of a model with experts: files have matrices of each."""
    mixtral, out = config.model_type == "mixtral", {}
    parts = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    for name, tensor in named.items():
        if mixtral:
            name = name.replace(".mlp.", ".block_sparse_moe.")
        if not name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            out[name] = tensor
            continue
        before, last = name.rsplit(".", 1)
        for expert, matrix in enumerate(tensor):
            own = matrix.chunk(2) if last == "gate_up_proj" else [matrix]
            for part, rows in zip(parts if last == "gate_up_proj" else parts[2:], own):
                out[f"{before}.{expert}.{part}.weight"] = rows.contiguous()
    return out


def as_in_files(model, named):
    """Tensors by their names in files, which transformers joins and renames for OLMo Hybrid and experts."""
    config, out = model.config, {}
    if config.model_type in ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe"):
        return experts_as_in_files(config, named)
    if config.model_type != "olmo_hybrid":
        return named
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    for name, tensor in named.items():
        if name.endswith("linear_attn.conv1d.weight"):
            for part, rows in zip("qkv", tensor.split([keys, keys, len(tensor) - 2 * keys])):
                out[name.replace("conv1d", f"{part}_conv1d")] = rows.contiguous()
            continue
        if ".layers." in name and config.layer_types[int(name.split(".")[2])] == "linear_attention":
            name = name.replace("input_layernorm", "attention_layer_norm")
            name = name.replace("post_attention_layernorm", "feedforward_layer_norm")
        out[name] = tensor
    return out


def save(model, optimizer, folder):
    names = {weight: name for name, weight in model.named_parameters()}
    os.makedirs(folder)
    if in_wrapper(model):
        model.save_pretrained(folder)  # by the names of the files that it was read from
    else:
        weights = {name: weight.detach().contiguous() for weight, name in names.items()}
        # Gemma 4's factors of layers, which are not trained.
        weights |= {name: buffer for name, buffer in model.named_buffers() if name.endswith("layer_scalar")}
        save_file(as_in_files(model, weights), f"{folder}/model.safetensors")
    moments = {}
    for state in ("exp_avg", "exp_avg_sq"):
        of_state = {names[weight]: states[state].contiguous() for weight, states in optimizer.state.items()}
        moments |= {f"{state}.{name}": tensor for name, tensor in as_in_files(model, of_state).items()}
    save_file(moments, f"{folder}/optimizer.safetensors")


def main(folder):
    with open(f"{folder}/run.json", encoding="utf-8") as file:
        run = json.load(file)
    torch.set_num_threads(run["threads"])
    transformers.logging.set_verbosity_error()
    model = load_model(f"{folder}/start").train()
    model.config.use_cache = False
    rows = load_file(f"{folder}/rows.safetensors")
    optimizer = optimizer_of(model, run)
    schedule = transformers.get_scheduler(
        run["lr_scheduler_type"], optimizer, run["warmup_steps"], run["steps"],
        scheduler_specific_kwargs=json.loads(run["lr_scheduler_kwargs"] or "{}"))
    os.makedirs(f"{folder}/there")
    with open(f"{folder}/there/log.jsonl", "w", encoding="utf-8") as log:
        for step in range(run["steps"]):
            optimizer.zero_grad()
            loss = train_step(model, micro_batches_of(rows, step), run["bf16"])
            most = run["max_grad_norm"] or float("inf")
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), most).item()
            optimizer.step()
            schedule.step()
            log.write(json.dumps({"step": step + 1, "loss": loss, "grad_norm": norm}) + "\n")
    save(model, optimizer, f"{folder}/there/{run['checkpoint']}")
    with open(f"{folder}/there/version", "w", encoding="utf-8") as file:
        file.write(transformers.__version__)


main(sys.argv[1])
