#!/usr/bin/env bash
# Tokens a second of an epoch of conversations, one a row and packed: log-normal lengths (median about 150 tokens, sigma 0.9, to
# 1,024), a Llama of 6 x 384, AdamW, one thread. Runs alternate, medians are compared.
#   benchmarks/packing_speed.sh [ROUNDS] [CONVERSATIONS] [OPTIONS...]     OPTIONS for both, such as --bf16
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3} COUNT=${2:-384}
source benchmarks/common.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# A word and the space before it are a token each; about twenty are the template's.
python3 - "$out" "$COUNT" <<'PYTHON'
import json, math, pathlib, random, sys
folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
fixture = json.loads(pathlib.Path("tests/chat/masks.json").read_text())
(folder / "words").mkdir()
(folder / "words/tokenizer.json").write_text(json.dumps(fixture["tokenizer"]))
(folder / "words/tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}))
(folder / "words/chat_template.jinja").write_text(
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
draw = random.Random(5)
with open(folder / "chat.jsonl", "w") as file:
    for _ in range(count):
        length = min(1000, max(2, round(math.exp(draw.gauss(math.log(150), 0.9)))))
        words = ["a"] + [draw.choice("abcdefgh") for _ in range(max(1, (length - 20) // 2))]
        half = len(words) // 2
        messages = [{"role": role, "content": " ".join(part)}
                    for role, part in (("user", words[:half] or ["a"]), ("assistant", words[half:]))]
        file.write(json.dumps({"messages": messages}) + "\n")
PYTHON

train() { # NAME OPTIONS...
  rm -rf "$out/$1"
  $convoy train --task chat --model_type llama --hidden_size 384 --intermediate_size 1024 --num_hidden_layers 6 \
    --num_attention_heads 6 --num_key_value_heads 6 --max_position_embeddings 1024 --data.tokenizer "$out/words" \
    --data.train "$out/chat.jsonl" --max_length 1024 --validation_split_percentage 0 --num_train_epochs 1 --threads 1 \
    --save_strategy no --logging_steps 1000 --output_dir "$out/$1" "${@:2}" >"$out/$1.text" 2>&1
}

for ((round = 0; round < ROUNDS; ++round)); do
  train rows --per_device_train_batch_size 8 "${@:3}"
  train packed --per_device_train_batch_size 2 --packing true "${@:3}"
  for name in rows packed; do
    decimal train_runtime <"$out/$name/train_results.json" >>"$out/$name.seconds"
  done
done
tokens=$(sed -n 's/.*conversations of \([0-9,]*\) tokens.*/\1/p' "$out/packed.text" | head -n 1 | tr -d ,)
sed -n 's/.*\(packed: .*\)/\1/p' "$out/packed.text" | head -n 1
printf '\n| a step | real tokens/s | seconds |\n|---|--:|--:|\n'
for name in rows packed; do
  seconds=$(median $(cat "$out/$name.seconds"))
  awk -v n="$name" -v t="$tokens" -v s="$seconds" 'BEGIN { printf "| %s | %.0f | %.1f |\n", n == "rows" ? "8 conversations, one a row" : "2 packed rows", t / s, s }'
done
printf '\nPacked: %s of the tokens a second.\n' "$(ratio "$(median $(cat "$out/rows.seconds"))" "$(median $(cat "$out/packed.seconds"))")"
