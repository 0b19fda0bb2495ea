"""Draws small models and ways to share them out, and compares what `convoy plan` predicts of a step's time and memory
with trainings. Called by plan_accuracy.sh."""
import argparse
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

CONVOY = os.environ["CONVOY"]


def draw_model(rng):
    """Options of a model of some family, with tokens that are drawn."""
    family = rng.choice(["gpt2", "llama", "bert", "t5"])
    heads = rng.choice([2, 4, 6])
    width = heads * rng.choice([32, 48, 64])
    length = rng.choice([64, 96, 128])
    layers = rng.choice([2, 3, 4, 6])
    ids = rng.choice([1000, 4000, 16000])
    sizes = {
        "gpt2": f"--n_embd {width} --n_layer {layers} --n_head {heads} --n_positions 128",
        "llama": f"--hidden_size {width} --num_hidden_layers {layers} --num_attention_heads {heads} "
                 f"--num_key_value_heads {heads // 2} --intermediate_size {3 * width} --max_position_embeddings 128",
        "bert": f"--hidden_size {width} --num_hidden_layers {layers} --num_attention_heads {heads} "
                f"--intermediate_size {4 * width} --max_position_embeddings 128",
        "t5": f"--d_model {width} --num_layers {layers} --num_heads {heads} --d_kv {width // heads} --d_ff {4 * width}",
    }[family]
    name = f"{family} {layers} x {width}, {ids} ids, {length} tokens"
    options = f"--family {family} {sizes} --vocab_size {ids} --random_tokens 200000 --block_size {length}"
    if rng.random() < 0.3:
        options += " --bf16"
        name += ", bf16"
    return name, options.split()


def run(words):
    done = subprocess.run([CONVOY, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"convoy {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def flags_of(row, batch):
    out = ["--pipeline_parallel_size", row["pipeline_parallel_size"], "--tensor_parallel_size",
           row["tensor_parallel_size"], "--zero", row["zero"], "--per_device_train_batch_size",
           row["per_device_train_batch_size"], "--global_batch_size", batch]
    if row["pipeline_schedule"]:
        out += ["--pipeline_schedule", row["pipeline_schedule"]]
    if row["gradient_checkpointing"]:
        out += ["--gradient_checkpointing"]
    return [str(word) for word in out]


def train(model, row, batch, ranks, steps, folder):
    words = ["train", *model, *flags_of(row, batch), "--max_steps", str(steps), "--save_strategy", "no",
             "--output_dir", str(folder / "run"), "--overwrite_output_dir", "--threads", "1", "--quiet"]
    run(words + (["--nproc", str(ranks)] if ranks > 1 else []))
    return json.loads((folder / "run/train_results.json").read_text())


def kendall(pairs):
    """Of predicted and measured times: how many pairs are in the same order, less those that are not."""
    agree = total = 0
    for (p, m), (q, n) in itertools.combinations(pairs, 2):
        if abs(m / n - 1) < 0.05:
            continue
        total += 1
        agree += 1 if (p - q) * (m - n) > 0 else -1
    return agree / total if total else 1.0


def summary(what, errors):
    worst = max(errors, key=abs)
    inside = sorted(abs(e) for e in errors)[int(0.9 * (len(errors) - 1))]
    print(f"{what}: median error {100 * statistics.median(abs(e) for e in errors):.1f} %, nine of ten within "
          f"{100 * inside:.1f} %, the worst {100 * worst:+.1f} %, of {len(errors)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--output", help="JSON file of all")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    times, memories, taus, regrets, everything = [], [], [], [], []
    print("| model | split | step predicted | measured | off | memory predicted | counted | off |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for _ in range(options.models):
            what, model = draw_model(rng)
            batch = rng.choice([8, 16])
            found = json.loads(run(["plan", *model, "--ranks", str(options.ranks), "--threads", "1", "--json",
                                    "--global_batch_size", str(batch)]))
            pairs = []
            for row in [row for row in found["families"] if row["fits"] != "no"]:
                got = train(model, row, batch, options.ranks, options.steps, folder)
                seconds, counted = got["train_step_seconds"], got["memory_bytes_per_rank"]
                time_off, memory_off = row["seconds"] / seconds - 1, row["memory_bytes"] / counted - 1
                pairs.append((row["seconds"], seconds))
                times.append(time_off)
                memories.append(memory_off)
                everything.append({"model": what, "row": row, "seconds": seconds, "bytes": counted})
                print(f"| {what} | {row['split']} | {1e3 * row['seconds']:.1f} ms | {1e3 * seconds:.1f} ms | "
                      f"{100 * time_off:+.1f} % | {row['memory_bytes'] / 2**20:.1f} MiB | {counted / 2**20:.1f} MiB | "
                      f"{100 * memory_off:+.1f} % |", flush=True)
            taus.append(kendall(pairs))
            regrets.append(min(pairs)[1] / min(seconds for _, seconds in pairs) - 1)
    print()
    summary("time", times)
    summary("memory", memories)
    print(f"order: Kendall's tau {statistics.mean(taus):.2f}; the first of a plan is {100 * statistics.median(regrets):.1f} "
          f"% slower than the fastest, at most {100 * max(regrets):.1f} %")
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
