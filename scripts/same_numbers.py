#!/usr/bin/env python3
"""Trains small models in twelve layouts with two builds of convoy and compares every number.

usage: same_numbers.py BEFORE AFTER               two programs, such as build-before/bin/convoy build/bin/convoy
       same_numbers.py PROGRAM --save FILE        keeps the numbers of one
       same_numbers.py PROGRAM --against FILE     compares with those

For changes that must change no number: losses, gradient norms and learning rates of all steps, and
the bytes of the checkpoint's tensors, must be the same. Ends with 1 where they are not, and where a
training left fewer numbers than its steps and checkpoints make.

It can compare builds of 40dc84a (the last commit before the folders moved) and of all later ones: they
take the same options and write the same files. Older ones deal the rows in another order since 784b673.
A file of numbers holds for machines with the same processor and the same wheel of torch.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SESSIONS = "--data.path syn --d_model 32 --n_layer 4 --n_head 2 --per_device_train_batch_size 8"
TOKENS = ("--random_tokens 20000 --vocab_size 211 --block_size 32 --n_embd 32 --n_layer 4 --n_head 2 "
          "--per_device_train_batch_size 4")
LLAMA = ("--random_tokens 20000 --vocab_size 211 --block_size 32 --hidden_size 32 --num_hidden_layers 4 "
         "--num_attention_heads 2 --intermediate_size 64 --per_device_train_batch_size 4")
LAYOUTS = {
    "single": f"{SESSIONS} --dropout 0.1",
    "accumulation": f"{SESSIONS} --gradient_accumulation_steps 3",
    "threads": f"{SESSIONS} --strategy dp --replicas 2",
    "ddp": f"{SESSIONS} --nproc 2 --dropout 0.1",
    "gloo": f"{SESSIONS} --nproc 2 --backend gloo",
    "zero1": f"--model_type gpt2 {TOKENS} --nproc 2 --zero 1 --bf16",
    "zero2": f"--model_type gpt2 {TOKENS} --nproc 2 --zero 2 --gradient_accumulation_steps 2",
    "zero3": f"--model_type llama {LLAMA} --nproc 2 --zero 3 --bucket_cap_mb 1",
    "hybrid": f"--model_type gpt2 {TOKENS} --nproc 4 --zero 3 --shard_ranks 2",
    "offload": f"--model_type gpt2 {TOKENS} --nproc 2 --zero 3 --offload_optimizer disk "
               "--offload_parameters disk --offload_dir .",
    "1f1b": f"--model_type gpt2 {TOKENS} --nproc 2 --pipeline_parallel_size 2 --gradient_accumulation_steps 4",
    "interleaved": f"--model_type llama {LLAMA} --nproc 4 --pipeline_parallel_size 2 "
                   "--pipeline_schedule interleaved --gradient_accumulation_steps 4 --zero 1 "
                   "--gradient_checkpointing",
}
STEPS = 6
COMMON = f"--max_steps {STEPS} --logging_steps 1 --save_steps 3 --threads 1 --seed 5 --quiet"
OF_A_STEP = ("loss", "grad_norm", "learning_rate")


def numbers(folder):
    """What a run computed, by name."""
    out = {}
    for line in filter(None, (folder / "log.jsonl").read_text().split("\n")):
        entry = json.loads(line)
        if "step" not in entry:
            continue
        for key in (*OF_A_STEP, "eval_loss"):
            if key in entry:
                out[f"step {entry['step']} {key}"] = entry[key]
    for file in sorted(folder.rglob("*.safetensors")):
        out[str(file.relative_to(folder))] = hashlib.sha256(file.read_bytes()).hexdigest()
    return out


def train(program, name, where):
    options = LAYOUTS[name].split() + COMMON.split()
    ran = subprocess.run([program, "train", *options, "--output_dir", where / name], cwd=where.parent,
                         capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if ran.returncode != 0:
        sys.exit(f"{name} with {program} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return numbers(where / name)


def train_all(program, folder):
    """Numbers by layout. Ends the script where a training left too few: nothing would be compared."""
    out = {}
    for name in LAYOUTS:
        out[name] = train(program, name, folder)
        missing = [f"step {step} {key}" for step in range(1, STEPS + 1) for key in OF_A_STEP
                   if f"step {step} {key}" not in out[name]]
        if not any(key.endswith(".safetensors") for key in out[name]):
            missing.append("weights of a checkpoint")
        if missing:
            sys.exit(f"{name} with {program} left no {missing[0]} ({len(missing)} numbers are missing)")
        print(f"{name}: {len(out[name])} numbers", flush=True)
    return out


def compare(before, after):
    """Says what differs; returns in how many layouts."""
    wrong = 0
    for name in LAYOUTS:
        old, new = before.get(name, {}), after[name]
        other = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        wrong += bool(other)
        print(f"{name}: " + ("the same" if not other else
              f"{len(other)} of {len(new)} differ; " +
              "; ".join(f"{key}: {old.get(key)} and {new.get(key)}" for key in other[:3])))
    return wrong


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1], add_help=True)
    parser.add_argument("programs", nargs="+", type=lambda place: pathlib.Path(place).resolve())
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path)
    asked = parser.parse_args()
    with_file = bool(asked.save) + bool(asked.against)
    if with_file > 1 or len(asked.programs) != 2 - with_file:
        parser.error("expected two programs, or one with --save FILE or --against FILE")
    before = json.loads(asked.against.read_text()) if asked.against else None
    trained = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([asked.programs[0], "data", "synthetic", "--output", "syn", "--rows", "400", "--items", "120"],
                       cwd=folder, check=True, capture_output=True)
        for number, program in enumerate(asked.programs):
            trained.append(train_all(program, folder / str(number)))
    if asked.save:
        asked.save.write_text(json.dumps(trained[0], indent=1) + "\n")
        return 0
    wrong = compare(trained[0] if before is None else before, trained[-1])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
