"""Runs of convoy on the CPU and on simulated GPUs, for the tests beside it.

runs.py FOLDER makes a folder with the texts, tokenizers and models of these runs, with a second argument also a text of
many ids. CONVOY is the program, FAKE_GPU_FOLDER holds the simulated libraries.
"""
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
FOLDER = os.environ.get("FAKE_GPU_FOLDER", str(ROOT / "build/fake_gpu"))
OWN_MODULE = FOLDER + "/own_module"

# As wide as it takes for gradients in several buckets of a MiB.
MODELS = {
    "gpt2": ["n_layer=4", "n_embd=160", "n_head=4", "n_positions=32"],
    "llama": ["hidden_size=160", "intermediate_size=320", "num_hidden_layers=4", "num_attention_heads=4",
              "num_key_value_heads=2", "max_position_embeddings=32", "tie_word_embeddings=true"],
    "llama_untied": ["hidden_size=160", "intermediate_size=320", "num_hidden_layers=4", "num_attention_heads=4",
                     "num_key_value_heads=2", "max_position_embeddings=32", "tie_word_embeddings=false"],
    "mixtral": ["hidden_size=160", "intermediate_size=96", "num_hidden_layers=4", "num_attention_heads=4",
                "num_key_value_heads=2", "max_position_embeddings=32", "num_local_experts=4"],
    "bert": ["hidden_size=160", "intermediate_size=320", "num_hidden_layers=4", "num_attention_heads=4",
             "max_position_embeddings=32"],
    "classify": ["hidden_size=160", "intermediate_size=320", "num_hidden_layers=4", "num_attention_heads=4",
                 "max_position_embeddings=32"],
    "t5": ["d_model=160", "d_kv=40", "d_ff=400", "num_layers=2", "num_heads=4", 'feed_forward_proj="gated-gelu"'],
    "session": ["d_model=32", "n_layer=2", "n_head=4"],
}
# Rows of several documents: pairs of answers, and texts of which none sees another.
DOCUMENTS = ("llama_pairs", "llama_apart")
MODELS |= {family: MODELS["llama"] for family in DOCUMENTS}
# Other bodies of session models: families of their own here.
BODIES = ("albert", "electra", "xlnet", "sasrec", "ligr")
MODELS |= {body: [*MODELS["session"], f'body = "{body}"'] for body in BODIES}
SESSIONS = ("session", *BODIES)
NO_DROPOUT = {
    "gpt2": ["--model.resid_pdrop", "0", "--model.embd_pdrop", "0", "--model.attn_pdrop", "0"],
    "llama": [],
    "llama_untied": [],
    "mixtral": [],
    "bert": ["--model.hidden_dropout_prob", "0", "--model.attention_probs_dropout_prob", "0"],
    "classify": ["--model.hidden_dropout_prob", "0", "--model.attention_probs_dropout_prob", "0"],
    "t5": ["--model.dropout_rate", "0"],
    **{family: [] for family in DOCUMENTS},
    **{family: ["--model.dropout", "0"] for family in SESSIONS},
}


@dataclasses.dataclass
class Result:
    code: int                      # -1: it did not end in time
    out: str                       # what it said, both streams
    losses: list = dataclasses.field(default_factory=list)  # (loss, norm of the gradients) a step
    evaluated: str = ""
    weights: str = ""              # a hash of the saved model
    skipped: int = 0               # steps without an update
    misuses: str = ""              # what the device told
    folder: pathlib.Path = None

    def numbers(self):
        return self.losses, self.evaluated, self.weights


class Runs:
    """A folder with data, tokenizers and runs."""

    def __init__(self, folder=None):
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="fake_gpu_runs_"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._known = {}
        (self.folder / "text.txt").write_text(" ".join(f"w{i * i * 7 % 80:02d}" for i in range(12000)))
        (self.folder / "labelled.jsonl").write_text("".join(json.dumps({
            "text": " ".join(f"w{(i * 7 + j * j) % 80:02d}" for j in range(5 + i * 11 % 25)),
            "label": "no" if i % 3 else "yes"}) + "\n" for i in range(400)))
        self._documents()
        self._tokenizer("plain", ["<pad>", "<unk>", "</s>"] + [f"<extra_id_{i}>" for i in range(15)], {
            "tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>",
            "extra_ids": 15, "additional_special_tokens": [f"<extra_id_{i}>" for i in range(15)]})
        self._tokenizer("masked", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], {
            "tokenizer_class": "BertTokenizer", "mask_token": "[MASK]", "pad_token": "[PAD]", "cls_token": "[CLS]",
            "sep_token": "[SEP]", "unk_token": "[UNK]"})
        self._configs()

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def wide(self, vocabulary=32000, words=1000000):
        """A tokenizer and a text of as many ids as a real model has, drawn evenly: wide/ and wide.txt."""
        special = ["<pad>", "<unk>", "</s>"]
        self._tokenizer("wide", special, {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>",
                                          "pad_token": "<pad>", "unk_token": "<unk>"}, vocabulary - len(special))
        draw = random.Random(1)
        (self.folder / "wide.txt").write_text(
            " ".join(f"w{draw.randrange(vocabulary - len(special)):02d}" for _ in range(words)))

    def _documents(self):
        def words(first, count):
            return " ".join(f"w{(first + j * j) % 80:02d}" for j in range(count))

        (self.folder / "texts.jsonl").write_text("".join(
            json.dumps({"text": words(i * 7, 3 + i * 11 % 25)}) + "\n" for i in range(600)))
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps({
            "prompt": words(i * 3, 2 + i % 5), "chosen": " " + words(i % 40, 2 + i * 7 % 9),
            "rejected": " " + words(40 + i % 40, 2 + i * 5 % 11)}) + "\n" for i in range(400)))

    def _tokenizer(self, name, special, config, words=80):
        folder = self.folder / name
        folder.mkdir()
        vocabulary = {text: i for i, text in enumerate(special + [f"w{i:02d}" for i in range(words)])}
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        (folder / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": text, **flags} for i, text in enumerate(special)],
            "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordPiece", "unk_token": special[1], "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": vocabulary}}))
        (folder / "tokenizer_config.json").write_text(json.dumps(config))

    def _configs(self):
        for family, lines in MODELS.items():
            name = "bert" if family == "classify" else "session" if family in SESSIONS else family.split("_")[0]
            model = [f'family = "{name}"'] + (['task = "classification"'] if family == "classify" else [])
            model += [] if name == "session" else ["vocab_size = 101"]
            tokenizer = "masked" if name == "bert" else "plain"
            data = ['path = "sessions"', 'features = ["item_id-list"]', "max_length = 12"] if name == "session" else [
                'train = "text.txt"', f'tokenizer = "{tokenizer}"', "block_size = 32"]
            if family == "classify":
                data[0], data[2] = 'train = "labelled.jsonl"', "max_length = 32"
            if family == "llama_pairs":
                model.append('task = "preference"')
                data[0], data[2] = 'train = "pairs.jsonl"', "max_length = 32"
            if family == "llama_apart":
                data[0] = 'train = "texts.jsonl"'
                data.append('documents = "apart"')
            train = ["per_device_train_batch_size = 8", "learning_rate = 1e-3", "logging_steps = 1", "max_steps = 3",
                     "seed = 1", 'save_strategy = "no"']
            (self.folder / f"{family}.toml").write_text("\n".join(
                ["[model]"] + model + lines + ["[data]"] + data + ["[train]"] + train +
                ["[parallel]", "bucket_cap_mb = 1", ""]))

    def convoy(self, args, *others, **more):
        """Runs any command of convoy."""
        return self.program([CONVOY, *args], *others, **more)

    def program(self, command, gpus=0, options="", environment=(), timeout=100):
        """Runs any program; gpus = 0 is the CPU."""
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        env = dict(os.environ, OMP_NUM_THREADS="1", **dict(environment))
        env.pop("CONVOY_FAKE_GPU", None)
        if gpus:
            env["CONVOY_FAKE_GPU"] = f"{FOLDER}:{gpus}"
            env["FAKE_GPU_OPTIONS"] = f"report={report}" + ("," + options if options else "")
        process = subprocess.Popen(command, cwd=self.folder, env=env, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        try:
            out, code = process.communicate(timeout=timeout)[0], process.returncode
        except subprocess.TimeoutExpired:
            process.terminate()  # it takes its ranks along
            try:
                out, code = process.communicate(timeout=15)[0], -1
            except subprocess.TimeoutExpired:
                process.kill()
                out, code = process.communicate()[0], -1
        return Result(code, out, evaluated="".join(line for line in out.splitlines() if line.startswith("evaluated")),
                      misuses=report.read_text(errors="replace") if report.exists() else "")

    def train(self, family, args=(), gpus=0, options="", environment=(), name=None, timeout=100):
        """Trains. Without a name the folder of the run is overwritten by the next."""
        if family in SESSIONS and not (self.folder / "sessions").exists():
            self.convoy(["data", "synthetic", "--output", "sessions", "--rows", "1000", "--items", "300"])
        folder = self.folder / (name or "run")
        shutil.rmtree(folder, ignore_errors=True)
        device = "cuda" if gpus else "cpu"
        result = self.convoy(["train", f"{family}.toml", *args, "--output_dir", str(folder), "--device", device], gpus,
                             options, environment, timeout)
        result.folder = folder
        if (folder / "trainer_state.json").exists():
            state = json.loads((folder / "trainer_state.json").read_text())
            result.losses = [(entry["loss"], entry.get("grad_norm")) for entry in state["log_history"] if "loss" in entry]
            result.skipped = state["skipped_steps"]
        if (folder / "model.safetensors").exists():
            result.weights = hashlib.md5((folder / "model.safetensors").read_bytes()).hexdigest()
        return result

    def known(self, family, args=(), gpus=0):
        """The same, once for all who ask for the same."""
        key = (family, tuple(args), gpus)
        if key not in self._known:
            self._known[key] = self.train(family, args, gpus)
        return self._known[key]


def difference(a, b):
    """The most by which the losses of two runs differ; infinite where there are not as many."""
    if not a.losses or len(a.losses) != len(b.losses):
        return float("inf")
    return max(abs(one[0] - other[0]) for one, other in zip(a.losses, b.losses))


if __name__ == "__main__":
    made = Runs(sys.argv[1])
    if len(sys.argv) > 2:
        made.wide()
