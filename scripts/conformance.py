#!/usr/bin/env python3
"""Writes docs/conformance.md: what `convoy verify --all-layouts` finds, family by technique and precision.

conformance.py PROGRAM --write FILE    trains all families and writes the table
conformance.py PROGRAM --draw PART     trains a part of the columns, such as 0.1, which the day draws, and checks every promise

Each cell is the largest difference of losses, gradients and weights from one device, rounded up to a power
of ten; "bits" where all numbers are equal. Ends with 1 where a promise of docs/training.md is broken.
"""
import argparse
import datetime
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

TEXT = ("--data.train text.txt --data.tokenizer words --block_size 16 --learning_rate 1e-2 "
        "--per_device_train_batch_size 2 ")
SESSIONS = ("--data.path sessions --d_model 16 --n_layer 4 --n_head 2 --learning_rate 1e-2 "
            "--per_device_train_batch_size 4 ")
DECODER = TEXT + ("--hidden_size 16 --intermediate_size 32 --num_hidden_layers 4 --num_attention_heads 4 "
                  "--num_key_value_heads 2 --max_position_embeddings 32 --model_type ")
DELTA = (" --head_dim 8 --full_attention_interval 2 --linear_num_key_heads 4 --linear_num_value_heads 8 "
         "--linear_key_head_dim 4 --linear_value_head_dim 4")
# Decoders, each with what sets it apart from the others.
DECODERS = {
    "llama": "",
    "qwen2": " --use_sliding_window true --sliding_window 5 --max_window_layers 2",
    "qwen3": " --head_dim 4",
    "qwen3_5_text": DELTA,
    "qwen3_5_moe_text": DELTA + " --num_experts 5 --num_experts_per_tok 2 --moe_intermediate_size 12 "
                                "--shared_expert_intermediate_size 20",
    "qwen3_next": DELTA + " --mlp_only_layers [1] --num_experts 4 --num_experts_per_tok 2 --moe_intermediate_size 12 "
                          "--shared_expert_intermediate_size 20",
    "mistral": " --head_dim 4 --sliding_window 5",
    "ministral3": " --head_dim 4 --sliding_window 5",
    "gemma2": " --head_dim 4 --query_pre_attn_scalar 4 --sliding_window 5",
    "gemma3_text": " --head_dim 4 --query_pre_attn_scalar 4 --sliding_window 5 --sliding_window_pattern 2",
    "gemma4_text": " --head_dim 4 --global_head_dim 8 --sliding_window 5 --num_kv_shared_layers 2 --use_double_wide_mlp true "
                   "--hidden_size_per_layer_input 4 --attention_k_eq_v true --num_global_key_value_heads 1 --layer_types "
                   '["sliding_attention","full_attention","sliding_attention","full_attention"]',
    "phi3": " --sliding_window 5",
    "smollm3": " --no_rope_layer_interval 2",
    "olmo2": "",
    "olmo3": " --sliding_window 5",
    "olmo_hybrid": " --linear_num_key_heads 4 --linear_num_value_heads 4",
    "granite": " --embedding_multiplier 3 --logits_scaling 2 --residual_multiplier 0.4 --attention_multiplier 0.3",
    "mixtral": " --num_local_experts 4 --output_router_logits true --router_aux_loss_coef 0.1",
    "qwen2_moe": " --num_experts 5 --num_experts_per_tok 2 --moe_intermediate_size 12 --shared_expert_intermediate_size 20",
    "qwen3_moe": " --head_dim 4 --num_experts 6 --num_experts_per_tok 2 --moe_intermediate_size 12 --norm_topk_prob true",
    "olmoe": " --num_experts 4 --num_experts_per_tok 3",
    "gpt_oss": " --head_dim 4 --sliding_window 5 --num_local_experts 4 --num_experts_per_tok 3",
}
SESSION_TABLE = pathlib.Path(__file__).resolve().parents[1] / "convoy/models/session/session_bodies.cpp"
BODIES = re.findall(r'\{\.name = "(\w+)"', SESSION_TABLE.read_text())
FAMILIES = {
    "gpt2": TEXT + "--model_type gpt2 --n_embd 16 --n_layer 4 --n_head 4 --n_positions 32",
    # OLMo has norms behind its branches alone: in bf16 a first step of AdamW at 1e-2, which turns weights whose gradient
    # rounds to the other sign, moves its second gradient by a tenth.
    **{family: (DECODER.replace("1e-2", "1e-3") if family.startswith("olmo") else DECODER) + family + more
       for family, more in DECODERS.items()},
    "bert": TEXT + "--model_type bert --hidden_size 16 --intermediate_size 32 --num_hidden_layers 4 "
            "--num_attention_heads 4 --max_position_embeddings 32 --mlm_probability 0.4",
    "t5": TEXT + "--model_type t5 --d_model 16 --d_kv 4 --d_ff 32 --num_layers 2 --num_heads 4 "
          "--relative_attention_num_buckets 8 --relative_attention_max_distance 12 --eos_token_id 3",
    # The body hstu reads when each event was.
    **{f"session {body}": (SESSIONS.replace("sessions", "timed") if body == "hstu" else SESSIONS) + f"--model.body {body}"
       for body in BODIES},
}
PRECISIONS = {"fp32": "", "bf16": " --bf16"}
COLUMNS = [(family, precision) for family in FAMILIES for precision in PRECISIONS]


def make_data(program, folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(20)]
    (folder / "words").mkdir()
    (folder / "words/vocab.txt").write_text("\n".join(words) + "\n")
    lines = (" ".join(f"w{(line * 7 + i * 3) % 20}" for i in range(12)) for line in range(400))
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    subprocess.run([program, "data", "synthetic", "--output", "sessions", "--items", "30", "--rows", "300"],
                   cwd=folder, check=True, capture_output=True)
    events = (f"u{user},i{(user + step * (1 + user % 3)) % 30},{1000 * user + step * step * 60}"
              for user in range(300) for step in range(4 + user % 9))
    (folder / "events.csv").write_text("\n".join(["user_id,item_id,timestamp", *events]) + "\n")
    subprocess.run([program, *"data sessions events.csv --output timed --keep-time --user user_id --item item_id "
                    "--time timestamp".split()], cwd=folder, check=True, capture_output=True)



def verify(program, folder, family, precision, ranks, keep):
    """Returns what a column's layouts came to; where `keep` has it, without training."""
    kept = keep and keep / f"{family.replace(' ', '_')}.{precision}.json"
    if kept and kept.exists():
        return json.loads(kept.read_text())
    (folder / "run.toml").write_text("")
    words = f"verify run.toml --all-layouts --whole --json --steps 2 --threads 1 --nproc {ranks} "
    words += FAMILIES[family] + PRECISIONS[precision]
    done = subprocess.run([program, *words.split()], cwd=folder, capture_output=True, text=True)
    if not done.stdout.strip():
        sys.exit(f"{family}, {precision}: {done.stderr.strip()}")
    if kept:
        keep.mkdir(parents=True, exist_ok=True)
        kept.write_text(done.stdout)
    return json.loads(done.stdout)


def largest(row):
    sizes = [row[key]["relative"] for key in ("first_loss", "losses", "first_grad_norm", "grad_norms", "gradients",
                                              "weights")]
    return math.inf if "infinite" in sizes else max(sizes)


def cell(row):
    if row["refused"]:
        return "-"
    if row["broken"] or row.get("failed"):
        return "**broken**"
    if row["same_bits"]:
        return "bits"
    size = largest(row)
    return "1e-16" if size == 0 else f"1e{math.ceil(math.log10(size))}" + (" *" if row.get("bf16_rounding") else "")


def technique(row):
    """A layout without its numbers of rows."""
    return row["layout"].rsplit(", ", 1)[0]


def page(columns, ranks):
    lines = ["# Conformance", "",
             "Written by `./dev test --all` (`scripts/conformance.py`): what [`convoy verify --all-layouts`](verify.md) finds on "
             f"{ranks} ranks with",
             "small models of each family. A cell is the largest relative difference of losses, gradient norms, gradients and weights "
             "from one device",
             "after two steps, rounded up to a power of ten; `bits`: all numbers are equal; `-`: the layout does not suit the family. "
             "`./dev test`",
             "checks a tenth of the columns, which the day draws.", "",
             "A cell with * is beyond the usual tolerances of bf16, and no farther than bf16 takes one device from fp32 on both sides",
             "([verify.md](verify.md#what-it-compares)).", ""]
    for precision in PRECISIONS:
        families = [family for family in FAMILIES if (family, precision) in columns]
        rows = {}
        for family in families:
            for row in columns[family, precision]:
                rows.setdefault(technique(row), {})[family] = cell(row)
        lines += [f"## {precision}", "", "| layout | " + " | ".join(families) + " |",
                  "|---" * (len(families) + 1) + "|"]
        for name, cells in rows.items():
            lines.append(f"| {name} | " + " | ".join(cells.get(family, "-") for family in families) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--write", type=pathlib.Path, help="the page, of all columns")
    parser.add_argument("--draw", type=float, default=0, help="a part of the columns, which the day draws")
    parser.add_argument("--keep", type=pathlib.Path,
                        help="folder for the results of columns: those that are in it are not trained again")
    parser.add_argument("--seed", default=datetime.date.today().isoformat())
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    chosen = COLUMNS
    if options.draw:
        chosen = random.Random(options.seed).sample(COLUMNS, math.ceil(options.draw * len(COLUMNS)))
    columns, broken = {}, []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make_data(program, folder)
        for family, precision in chosen:
            rows = columns[family, precision] = verify(program, folder, family, precision, options.ranks, options.keep)
            tried = [row for row in rows if not row["refused"]]
            print(f"{family}, {precision}: {len(tried)} layouts, {sum(row['same_bits'] for row in tried)} with the same bits",
                  flush=True)
            broken += [f"{family}, {precision}, {row['layout']}: {text}" for row in rows
                       for text in [*row["broken"], *filter(None, [row.get("failed")])]]
            if not tried:
                broken.append(f"{family}, {precision}: no layout was tried")
    if options.write and not options.draw:
        options.write.write_text(page(columns, options.ranks))
    if broken:
        sys.exit("broken promises (seed " + options.seed + "):\n" + "\n".join(broken))


if __name__ == "__main__":
    main()
