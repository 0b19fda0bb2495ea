#!/usr/bin/env bash
# Samples a second of a training on a mixture of two sources, beside one on a file of both: a GPT-2 of 4 x 256, blocks of 256 tokens,
# AdamW, one thread. Runs alternate, medians are compared.
#   benchmarks/mixture_speed.sh [ROUNDS] [STEPS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-5} STEPS=${2:-60}
source benchmarks/common.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

python3 - "$out" <<'PYTHON'
import json, pathlib, random, sys
folder = pathlib.Path(sys.argv[1])
draw = random.Random(5)
rows = [json.dumps({"text": " ".join(draw.choice("abcdefgh") * draw.randrange(1, 6) for _ in range(draw.randrange(100, 900)))})
        for _ in range(2000)]
alphabet = ["<|end|>", "\u0120", *"abcdefgh"]  # a token a letter
bytes_as_text = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
(folder / "letters").mkdir()
(folder / "letters/tokenizer.json").write_text(json.dumps({
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": bytes_as_text,
    "pre_tokenizer": bytes_as_text, "added_tokens": [{"id": 0, "content": "<|end|>", "single_word": False, "lstrip": False,
                                                      "rstrip": False, "normalized": False, "special": True}],
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
              "fuse_unk": False, "byte_fallback": False, "vocab": {token: id for id, token in enumerate(alphabet)}, "merges": []}}))
(folder / "letters/tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
(folder / "a.jsonl").write_text("\n".join(rows[:1000]) + "\n")
(folder / "b.jsonl").write_text("\n".join(rows[1000:]) + "\n")
(folder / "both.jsonl").write_text("\n".join(rows) + "\n")
PYTHON

train() { # NAME OPTIONS...
  rm -rf "$out/$1"
  $convoy train --task language --model_type gpt2 --n_embd 256 --n_layer 4 --n_head 4 --block_size 256 --data.tokenizer "$out/letters" \
    --validation_split_percentage 0 --max_steps "$STEPS" --per_device_train_batch_size 4 --threads 1 --save_strategy no \
    --logging_steps 1000 --output_dir "$out/$1" "${@:2}" >"$out/$1.text" 2>&1 || { tail -n 5 "$out/$1.text" >&2 && return 1; }
  decimal train_steady_samples_per_second <"$out/$1/train_results.json" >>"$out/$1.rates"
}

for ((round = 0; round < ROUNDS; ++round)); do
  train one --data.train "$out/both.jsonl"
  train mixture --mixture "$out/a.jsonl=0.5,$out/b.jsonl=0.5"
done
one=$(median $(cat "$out/one.rates")) mixture=$(median $(cat "$out/mixture.rates"))
printf '| | rows/s |\n|---|--:|\n| one file | %.2f |\n| mixture of two | %.2f |\n\nA mixture trains at %s of the speed.\n' "$one" "$mixture" "$(ratio "$mixture" "$one")"
