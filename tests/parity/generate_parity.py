#!/usr/bin/env python3
"""Compares what `convoy generate` goes on with to Hugging Face's generate, token by token.

    PYTHON tests/parity/generate_parity.py build/bin/convoy [runs/gpt2_clm]

Of the texts that the run held out it cuts 100 prompts of 4 to 40 tokens, and has both go on for 64
greedy tokens in fp32: convoy in batches and alone, with its cache and without. Where the best two
logits of transformers are as near as rounding, either token will do, and what follows is not
compared. The folder is a run on a text file, `./dev data text` and examples/gpt2_clm/small.toml
make it. Needs torch and transformers.
"""
import itertools
import json
import subprocess
import sys
import tempfile
import tomllib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPTS, SHORTEST, LONGEST, NEW, NEAR = 100, 4, 40, 64, 1e-5
WAYS = {"batches of 8": ["--batch-size", "8"],
        "batches of 8, no cache": ["--batch-size", "8", "--no-cache"],
        "one by one": ["--batch-size", "1"],
        "one by one, no cache": ["--batch-size", "1", "--no-cache"]}
END = "end"


def held_out(folder):
    """The first lines of the run's text, as one line."""
    with open(f"{folder}/run.toml", "rb") as file:
        data = tomllib.load(file)["data"]
    with open(data["train"], encoding="utf-8") as file:
        lines = file.readlines()
    part = data.get("validation_split_percentage", 5) / 100
    return "".join(lines[:round(len(lines) * part)]).replace("\n", " ")


def cut(tokenizer, text):
    """Prompts of many lengths from all over the text."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) >= PROMPTS * LONGEST, f"{len(ids)} tokens are held out; expected more"
    out = []
    for i in range(PROMPTS):
        begin = i * (len(ids) - LONGEST) // PROMPTS
        length = SHORTEST + i % (LONGEST - SHORTEST + 1)
        out.append(tokenizer.decode(ids[begin:begin + length], clean_up_tokenization_spaces=False))
    return out


def expected(model, ids, ends):
    """The tokens, END for one that ends the text, and the place of the first near tie."""
    room = model.config.max_position_embeddings - len(ids)
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)).long(),
                             max_new_tokens=min(NEW, room), do_sample=False, pad_token_id=0,
                             output_logits=True, return_dict_in_generate=True)
    tie = len(out.logits)
    for place, logits in enumerate(out.logits):
        best = logits[0].topk(2).values
        if best[0] - best[1] < NEAR * logits.abs().max():
            tie = place
            break
    tokens = out.sequences[0, len(ids):].tolist()
    return [END if token in ends else token for token in tokens], tie


def generated(program, folder, prompts, options):
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(prompt + "\n" for prompt in prompts)
        file.flush()
        command = [program, "generate", folder, "--file", file.name, "--max-new-tokens", str(NEW),
                   "--json", *options]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in run.stdout.decode().split("\n") if line]


def compare(way, texts, prompts, prompt_ids, references):
    """The numbers of those that are equal, that part at a near tie, and that differ."""
    assert len(texts) == len(prompts), f"{way}: {len(texts)} texts of {len(prompts)} prompts"
    equal = near = 0
    for number, (text, prompt, ids, (theirs, tie)) in enumerate(
            zip(texts, prompts, prompt_ids, references), 1):
        if text["prompt_ids"] != ids:
            print(f"{way}: prompt {number} {prompt!r}: DIFFERS in its tokens: {text['prompt_ids']}, "
                  f"transformers {ids}")
            continue
        ours = text["ids"] + ([END] if text["ended"] == "end" else [])
        pairs = enumerate(itertools.zip_longest(ours, theirs))
        place = next((place for place, (a, b) in pairs if a != b), None)
        if place is None:
            equal += 1
        elif place >= tie:
            near += 1
        else:
            print(f"{way}: prompt {number} {prompt!r}: DIFFERS at new token {place + 1}: "
                  f"{ours[place:place + 3]}, transformers {theirs[place:place + 3]}")
    different = len(prompts) - equal - near
    print(f"{way}: of {len(prompts)} texts {equal} equal to the end, {near} up to a near tie, "
          f"{different} different", flush=True)
    return different == 0


def main(program, folder="runs/gpt2_clm"):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    prompts = cut(tokenizer, held_out(folder))
    prompt_ids = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    references = [expected(model, ids, ends) for ids in prompt_ids]
    print(f"{sum(len(theirs) for theirs, _ in references)} tokens, near ties in "
          f"{sum(tie < len(theirs) for theirs, tie in references)} texts", flush=True)
    ways = [compare(way, generated(program, folder, prompts, options), prompts, prompt_ids,
                    references) for way, options in WAYS.items()]
    sys.exit(0 if all(ways) else 1)


main(*sys.argv[1:])
