"""Draws small models, and lets `convoy bench plan` draw ways to share each out and compare what is predicted of a
step's time and memory with trainings. Called by plan_accuracy.sh."""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess

CONVOY = os.environ["CONVOY"]


def draw_session_model(rng):
    """Options of a recommender with some body, with sessions of many lengths."""
    body, masking = rng.choice([("gpt2", "clm"), ("bert", "mlm"), ("albert", "mlm"), ("electra", "rtd"), ("xlnet", "plm"),
                                ("sasrec", "clm"), ("ligr", "clm")])
    width, layers = 4 * rng.choice([16, 24, 32]), rng.choice([2, 3, 4])
    items, length = rng.choice([1000, 5000, 20000]), rng.choice([12, 20, 40])
    folder = f"data/plan_accuracy/{items}"
    if not pathlib.Path(folder, "schema.json").exists():
        run(["data", "synthetic", "--output", folder, "--items", items, "--rows", 4000, "--max-length", 40])
    name = f"{body} {masking} {layers} x {width}, {items} items, sessions of up to {length}"
    options = (f"--body {body} --masking {masking} --d_model {width} --n_layer {layers} --n_head 4 --data.path {folder} "
               f"--features item_id-list --max_length {length}")
    return name, options.split()


def draw_model(rng, families):
    """Options of a model of some family, with tokens that are drawn."""
    family = rng.choice(families)
    if family == "session":
        return draw_session_model(rng)
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
    words = [str(word) for word in words]
    done = subprocess.run([CONVOY, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"convoy {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def summary(what, errors):
    worst = max(errors, key=abs)
    inside = sorted(abs(e) for e in errors)[max(0, -(-9 * len(errors) // 10) - 1)]
    print(f"{what}: median error {100 * statistics.median(abs(e) for e in errors):.1f} %, nine of ten within "
          f"{100 * inside:.1f} %, the worst {100 * worst:+.1f} %, of {len(errors)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--plans", type=int, default=5, help="of each model, beside the plan itself")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--families", type=lambda text: text.split(","), default=["gpt2", "llama", "bert", "t5"],
                        help="to draw from: gpt2, llama, bert, t5, session")
    parser.add_argument("--output", help="JSON file of all")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    times, memories, taus, regrets, everything = [], [], [], [], []
    print("| model | split | step predicted | measured | off | memory predicted | counted | off |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for number in range(options.models):
        what, model = draw_model(rng, options.families)
        found = json.loads(run(["bench", "plan", *model, "--ranks", options.ranks, "--threads", 1, "--json", "--seed",
                                options.seed + number, "--plans", options.plans, "--steps", options.steps, "--rounds",
                                options.rounds, "--global_batch_size", rng.choice([8, 16])]))
        everything.append({"model": what, **found})
        taus.append(found["kendalls_tau"])
        regrets.append(found["regret"])
        for row in found["trials"]:
            if row["failure"]:
                print(f"| {what} | {row['split']} | {row['failure']} |")
                continue
            seconds, counted = row["measured_seconds"], row["measured_memory_bytes"]
            times.append(row["seconds"] / seconds - 1)
            memories.append(row["memory_bytes"] / counted - 1)
            print(f"| {what} | {row['split']} | {1e3 * row['seconds']:.1f} ms | {1e3 * seconds:.1f} ms | "
                  f"{100 * times[-1]:+.1f} % | {row['memory_bytes'] / 2**20:.1f} MiB | {counted / 2**20:.1f} MiB | "
                  f"{100 * memories[-1]:+.1f} % |", flush=True)
    print()
    summary("time", times)
    summary("memory", memories)
    print(f"order: Kendall's tau {statistics.mean(taus):.2f}; what is predicted to be the fastest is "
          f"{100 * statistics.median(regrets):.1f} % slower than the fastest, at most {100 * max(regrets):.1f} %")
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
