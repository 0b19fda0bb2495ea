#!/usr/bin/env python3
"""Writes fixtures of what Transformers4Rec 23.12.0 computes: losses, scores and metrics of its models.

Needs the installation that benchmarks/baselines/t4rec_trainer.py describes, and safetensors; one thread, fp32:

    python3 tests/parity/make_transformers4rec_fixtures.py tests/parity [NAME...]

A name is BODY_MASKING_item or BODY_MASKING_all: of items alone, or with a category and a price beside. Hidden
items are drawn as convoy draws them; the rest is that program's own, padding that is attended to included, and
under clm XLNet's look at the items that it predicts.
"""
import json
import os
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch  # noqa: E402
import transformers4rec.torch as t4rec  # noqa: E402
from merlin_standard_lib import Schema  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from transformers4rec.config import transformer as configs  # noqa: E402
from transformers4rec.torch.masking import MaskingInfo  # noqa: E402

from session_reference import D, HEADS, ITEMS, LAYERS, LENGTH, batches, hidden_items  # noqa: E402

KINDS = 7
BODIES = {"gpt2": (configs.GPT2Config, ["clm"], "transformer"), "bert": (configs.BertConfig, ["mlm"], "bert"),
          "albert": (configs.AlbertConfig, ["mlm"], "albert"), "electra": (configs.ElectraConfig, ["mlm"], "electra"),
          "xlnet": (configs.XLNetConfig, ["mlm", "clm"], "transformer")}
UNUSED = ("pooler", "word_embedding", "wte", "position_ids", "seg_embed", "r_s_bias", "mask_emb")


def schema_of(every):
    def column(name, kind, tags, **domain):
        return {"name": name, "type": kind, "valueCount": {"min": "2", "max": str(LENGTH)},
                "annotation": {"tag": ["list", *tags]}, **domain}

    def ids(name, count):
        return {"intDomain": {"name": name, "min": "0", "max": str(count - 1), "isCategorical": True}}

    columns = [column("item_id-list", "INT", ["item_id", "item", "categorical"], **ids("item_id", ITEMS))]
    if every:
        columns.append(column("kind-list", "INT", ["categorical"], **ids("kind", KINDS)))
        columns.append(column("price-list", "FLOAT", ["continuous"]))
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/schema.json", "w") as file:
            json.dump({"feature": columns}, file)
        return Schema().from_json(f"{folder}/schema.json")


def columns_of(ids, every):
    out = {"item_id-list": ids}
    if every:
        out["kind-list"] = torch.where(ids > 0, 1 + ids % (KINDS - 1), 0)
        out["price-list"] = (ids % 11) / 10.0
    return out


def model_of(body, masking, every):
    config_type = BODIES[body][0]
    more = dict(continuous_projection=D, projection=t4rec.MLPBlock([D], activation=None)) if every else {}
    inputs = t4rec.TabularSequenceFeatures.from_schema(
        schema_of(every), max_sequence_length=LENGTH, aggregation="concat", masking=masking,
        embedding_dims={"item_id-list": D, "kind-list": D}, **more)
    config = config_type.build(d_model=D, n_head=HEADS, n_layer=LAYERS, total_seq_length=LENGTH,
                               layer_norm_eps=1e-5, dropout=0.0)
    if body == "bert":  # its build() does not reach these
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
        config.intermediate_size = 4 * D
    if body == "electra":
        config.attention_probs_dropout_prob = 0.0
    return config.to_torch_model(inputs, t4rec.NextItemPredictionTask(weight_tying=True))


def named(model, body):
    """Its parameters by convoy's names."""
    features, rest = "heads.0.body.0.", "heads.0.body.1.transformer."
    prefixes = {"to_merge.categorical_module.embedding_tables.": "embeddings.",
                "to_merge.continuous_module.1.0.0.": "continuous_projection.",
                "projection_module.0.0.": "input_projection.", "_masking.": ""}
    for name, value in model.named_parameters():
        if any(part in name for part in UNUSED):
            continue
        if name.startswith(rest):
            yield f"{BODIES[body][2]}.{name.removeprefix(rest)}", value
            continue
        for theirs, ours in prefixes.items():
            if name.startswith(features + theirs):
                yield ours + name.removeprefix(features + theirs), value


def as_here(name, value):
    """Concatenated features: continuous ones come first there, last here. A position there is never used."""
    if name.endswith("position_embeddings.weight"):
        value = value[:LENGTH + 1]
    if name != "input_projection.weight":
        return value.detach().clone()
    return torch.cat([value[:, D:], value[:, :D]], 1).detach().clone()


def write(folder, name):
    body, masking, which = name.split("_")
    every = which == "all"
    torch.manual_seed(0)
    model = model_of(body, masking, every).eval()
    weights = dict(named(model, body))
    if body == "gpt2":
        weights.pop("masked_item_embedding")  # stands at padding only, which nobody sees
    with torch.no_grad():  # away from the special points of fresh weights
        for key, value in weights.items():
            value.add_(0.05 * torch.randn_like(value))
            if key.startswith("embeddings."):
                value[0] = 0
    out = {"weight." + key: as_here(key, value) for key, value in weights.items()}
    sets = list(batches())
    task = model.heads[0].prediction_task_dict["next-item"]
    for metric in task.metrics:  # which all models there share
        metric.reset()
    hides = model.heads[0].body.inputs.masking
    own = type(hides)._compute_masked_targets

    def targets(ids, training=False, testing=False):
        if not training or masking != "mlm":
            return own(hides, ids, training=training, testing=testing)
        hidden = hidden_items(ids, step=0)
        return MaskingInfo(hidden, torch.where(hidden, ids, 0))

    hides._compute_masked_targets = targets
    losses = []
    with torch.no_grad():
        columns = columns_of(sets[0][0], every)
        out["loss"] = model(columns, training=True)["loss"].double()
        scores = model(columns)
        out["scores"] = (scores["next-item"] if isinstance(scores, dict) else scores)[:, 1:].contiguous()
        for ids, _ in sets:
            told = model(columns_of(ids, every), testing=True)
            losses.append(told["loss"].double())
            task.calculate_metrics(told["predictions"], told["labels"])
        out["eval_loss"] = torch.stack(losses).mean()
        for key, value in task.compute_metrics().items():
            out["metric." + key.removeprefix("next-item/")] = value.double()
    for i, (ids, lengths) in enumerate(sets):
        out[f"ids.{i}"], out[f"lengths.{i}"] = ids, lengths
    save_file(out, f"{folder}/transformers4rec_{name}.safetensors", metadata={"format": "pt"})
    print(name, out["loss"].item(), out["eval_loss"].item(),
          {key: round(value.item(), 4) for key, value in out.items() if key.startswith("metric.")})


torch.set_num_threads(1)
where, *names = sys.argv[1:] or ["."]
for name in names or [f"{body}_{masking}_{which}" for body in BODIES for masking in BODIES[body][1]
                      for which in ("item", "all")]:
    write(where, name)
