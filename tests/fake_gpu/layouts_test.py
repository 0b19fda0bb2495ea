#!/usr/bin/env python3
"""Trainings on simulated GPUs: the layouts agree to the bit where the CPU's do, and with the CPU to 1e-5.

layouts_test.py [-v] [CLASS...]; with FAKE_GPU_ALL=1 all layouts of all families.
"""
import json
import os
import re
import unittest

from counts_test import COLUMNS, FILE, read, read_counts
from layouts import BY_NAME, LAYOUTS, OFFLOAD, RANKS, TENSOR, batches
from runs import BODIES, MODELS, NO_DROPOUT, Runs, difference

ALL = os.environ.get("FAKE_GPU_ALL") == "1"
# In ./dev test the other families are tried where they differ: ties, two stacks, masks, sessions.
OF_FAMILIES = ("single", "zero3_prefetch1", "zero_bubble", "tensor2", "sequence2", "context2", "bf16")
OF_BODIES = ("single", "zero_bubble")
UNTIED = ("llama_untied",)


class OnFakeGpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = Runs()

    @classmethod
    def tearDownClass(cls):
        cls.runs.remove()

    def good(self, result):
        self.assertEqual(result.code, 0, result.out[-3000:])
        self.assertEqual(result.misuses, "")
        return result

    def check(self, family, layout):
        result = self.good(self.runs.known(family, layout.options(family), layout.gpus))
        # A step that overflows in fp16 is skipped on the CPU, too; fp32 takes it.
        half = ("--fp16",) if result.skipped else ()
        one = self.good(self.runs.known(family, (*layout.on_one(family), *half)))
        self.assertEqual(result.skipped, one.skipped)
        self.assertLessEqual(difference(result, one), layout.off, f"{result.losses} and on the CPU {one.losses}")
        if same := layout.same or (layout.untied if family in UNTIED else ""):
            other = BY_NAME[same]
            self.assertEqual(result.numbers(), self.runs.known(family, other.options(family), other.gpus).numbers(),
                             f"has the bits of {same}")


class Gpt2(OnFakeGpus):
    """All layouts of one family."""

    def counted(self, layout, family="gpt2", during="", more=()):
        """What the device counted in the third step, by the columns of FILE, under labels that begin so; but for what is summed and saved after it."""
        file = self.runs.folder / "counts"
        file.unlink(missing_ok=True)
        self.good(self.runs.train(family, (*layout.options(family), *more), layout.gpus, f"counts={file}"))
        found = [numbers for step, label, numbers in read_counts(file)
                 if step == 3 and label not in ("save model", "sum weights") and label.startswith(during)]
        self.assertTrue(found)
        return {column: sum(numbers[column] for numbers in found) for column in FILE}

    def test_stages_of_one_process_send_from_device_to_device(self):
        # Rows and numbers of targets alone come and go; over shared memory 0.9 MB do.
        counted = self.counted(BY_NAME["pipeline_threads"])
        self.assertLess(counted["bytes up"] + counted["bytes down"], 16_000)

    def test_ranks_that_share_out_rows_do_not_wait_in_layers(self):
        bert_body = ("--model.body", "bert")
        for family, more in (("gpt2", ()), ("llama", ()), ("bert", ()), ("t5", ()), ("session", ()), ("session", bert_body)):
            for name in ("sequence2", "context2"):
                if not BY_NAME[name].takes(family):
                    continue
                with self.subTest(family=family, layout=name, more=more):
                    counted = self.counted(BY_NAME[name], family, during="forward", more=more)
                    self.assertEqual((counted["waits"], counted["blocking copies"]), (0, 0))

    def test_ranks_over_nccl_wait_once_a_step(self):
        for name in ("1f1b", "zero_bubble", "zero3_prefetch1"):
            with self.subTest(layout=name):
                # The third step is not the last, after which memory is compared and the model saved, and is not
                # logged: data ranks add up the sums of their rows for a line of the log.
                counted = self.counted(BY_NAME[name], more=("--max_steps", "4", "--logging_steps", "4"))
                self.assertEqual((counted["waits"], counted["blocking copies"]), (2, 0), "one on each rank")

    def test_tensor_ranks_compute_while_they_sum_the_gradient_of_an_input(self):
        # Gradients of the weights that read it: two launches for a weight and its bias at least, on each of two ranks.
        for family, weights in (("gpt2", 2), ("llama", 5)):
            with self.subTest(family=family):
                counted = self.counted(BY_NAME["tensor2"], family, during="backward block 2", more=("--max_steps", "4"))
                self.assertGreaterEqual(counted["meanwhile"], 2 * weights)

    def test_an_optimizer_takes_few_launches(self):
        launches = {name: self.counted(BY_NAME["single"], more=("--optim", name))["launches"]
                    for name in ("adamw_torch", "adamw_bf16", "lion_32bit")}
        for name, number in launches.items():
            with self.subTest(optimizer=name):
                self.assertLess(number, 1.1 * launches["adamw_torch"])

    def test_a_checkpoint_comes_to_the_host_through_pinned_memory(self):
        save = ("--save_strategy", "steps", "--save_steps", "3", "--max_steps", "4")
        for beside in ("true", "false"):
            with self.subTest(save_async=beside):
                counted = self.counted(BY_NAME["single"], during="save", more=(*save, "--save_async", beside))
                self.assertGreater(counted["bytes down"], 10_000_000)
                self.assertEqual(counted["blocking copies"], 1, "of whether the weights are finite")
                self.assertLessEqual(counted["waits"], 4)


class Families(OnFakeGpus):
    """Some layouts of the others."""


class Untied(OnFakeGpus):
    """Pipelines that have the bits of one device."""


for one in LAYOUTS:
    if one.fast:
        setattr(Gpt2, f"test_{one.name}", lambda self, layout=one: self.check("gpt2", layout))
for kind in UNTIED:
    for one in LAYOUTS:
        if one.untied and one.fast:
            setattr(Untied, f"test_{kind}_{one.name}", lambda self, family=kind, layout=one: self.check(family, layout))
for kind in MODELS:
    for one in LAYOUTS:
        if kind != "gpt2" and one.name in (OF_BODIES if kind in BODIES else OF_FAMILIES) and one.takes(kind):
            setattr(Families, f"test_{kind}_{one.name}", lambda self, family=kind, layout=one: self.check(family, layout))
if ALL:
    class Everything(OnFakeGpus):
        """The whole grid."""

    for kind in MODELS:
        for one in filter(lambda layout, family=kind: layout.takes(family), LAYOUTS):
            setattr(Everything, f"test_{kind}_{one.name}", lambda self, family=kind, layout=one: self.check(family, layout))


class Halves(OnFakeGpus):
    def test_fp16_skips_what_overflows_everywhere_alike(self):
        overflows = ("--fp16", "--model.initializer_range", "0.4", "--max_steps", "5")
        on_cpu = self.good(self.runs.train("gpt2", overflows))
        self.assertGreater(on_cpu.skipped, 0)
        for args, gpus in (((), 1), ((*RANKS[2], "--zero", "2", *batches(4, 1)), 2), (("--strategy", "dp", *batches(4, 1)), 2)):
            result = self.good(self.runs.train("gpt2", (*overflows, *args), gpus))
            # What is just beyond fp16 on one processor is just within it on another.
            self.assertGreater(result.skipped, 0)
            self.assertLessEqual(abs(result.skipped - on_cpu.skipped), 1)
            self.assertAlmostEqual(result.losses[0][0], on_cpu.losses[0][0], delta=5e-2)


class Checkpoints(OnFakeGpus):
    """What one device saved, another goes on with."""
    SAVE = ("--save_strategy", "steps", "--save_steps", "2")

    def goes_on(self, args, gpus, size, micro_batches=1, family="gpt2"):
        one = batches(8 if micro_batches == 1 else 2, micro_batches)
        args = (*args, *batches(size, micro_batches))
        whole = self.good(self.runs.known(family, one))
        saved = self.good(self.runs.train(family, (*args, *self.SAVE), gpus, name="saved"))
        resume = ("--resume_from_checkpoint", str(saved.folder / "checkpoint-2"))
        for on, where in ((one, 0), (args, gpus)):
            result = self.good(self.runs.train(family, (*on, *resume), where, name="resumed"))
            self.assertAlmostEqual(result.losses[-1][0], whole.losses[-1][0], delta=1e-5)
            self.assertEqual(len(result.losses), 3)

    def test_one_gpu_resumes(self):
        self.goes_on((), 1, 8)

    def test_data_parallel_on_two_resumes(self):
        self.goes_on(("--strategy", "dp"), 2, 4)

    def test_data_parallel_on_four_resumes(self):
        self.goes_on(("--strategy", "dp"), 4, 2)

    def test_zero3_resumes(self):
        self.goes_on((*RANKS[2], "--zero", "3"), 2, 4)

    def test_offloaded_state_resumes(self):
        self.goes_on((*RANKS[2], "--zero", "3", *OFFLOAD), 2, 4)

    def test_a_pipeline_resumes(self):
        self.goes_on((*RANKS[2], "--pipeline_parallel_size", "2"), 2, 2, 4)

    def test_a_gpu_resumes_from_the_cpu(self):
        whole = self.good(self.runs.known("gpt2", batches(8, 1)))
        saved = self.good(self.runs.train("gpt2", self.SAVE, name="saved"))
        result = self.good(self.runs.train("gpt2", ("--resume_from_checkpoint", str(saved.folder / "checkpoint-2")), 1))
        self.assertAlmostEqual(result.losses[-1][0], whole.losses[-1][0], delta=1e-5)


class Commands(OnFakeGpus):
    @staticmethod
    def numbers_of(out):
        """Those of the results, not of speed or memory."""
        lines = [line for line in out.splitlines() if not any(word in line for word in ("/s", " s:", "MiB", "cuda", "cpu"))]
        return [float(number) for line in lines for number in re.findall(r"\d+\.\d+", line)]

    def both(self, *args):
        """What a command says on the CPU and on a GPU, without speeds."""
        said = [self.good(self.runs.convoy([*args, "--device", device], gpus)).out for device, gpus in (("cpu", 0), ("cuda", 1))]
        return [[line for line in text.splitlines() if not any(word in line for word in ("/s", " s:", "MiB", "cuda", "cpu"))]
                for text in said]

    def test_evaluate_predict_generate(self):
        self.good(self.runs.train("gpt2", ("--data.valid", "text.txt"), 1, name="gpt2"))
        self.good(self.runs.train("session", (), 1, name="session"))
        for args in (("eval", "gpt2"), ("eval", "session"), ("predict", "session", "--rows", "5"),
                     ("generate", "gpt2", "--prompt", "w03 w08 w15", "--max-new-tokens", "8"),
                     ("generate", "gpt2", "--prompt", "w03 w08 w15", "--max-new-tokens", "8", "--bf16"),
                     ("generate", "gpt2", "--prompt", "w03 w08 w15", "--max-new-tokens", "8", "--do-sample", "--seed", "3")):
            with self.subTest(command=" ".join(args)):
                on_cpu, on_gpu = self.both(*args)
                self.assertTrue(any(on_cpu))
                self.assertEqual(on_gpu, on_cpu)

    def test_generate_and_evaluate_with_windows(self):
        self.good(self.runs.train("llama", ("--model.family", "mistral", "--model.sliding_window", "8", "--data.valid", "text.txt",
                                            "--max_steps", "60"), 1, name="windows"))
        prompt = " ".join(f"w{i * i * 7 % 80:02d}" for i in range(12))
        for args in (("generate", "windows", "--prompt", prompt, "--max-new-tokens", "8"), ("eval", "windows")):
            for precision in ((), ("--bf16",)):
                with self.subTest(command=args[0], precision=precision):
                    on_cpu, on_gpu = self.both(*args, *precision)
                    self.assertTrue(any(on_cpu))
                    if args[0] == "generate":
                        self.assertEqual(on_gpu, on_cpu)
                    for one, other in zip(self.numbers_of("\n".join(on_gpu)), self.numbers_of("\n".join(on_cpu)), strict=True):
                        self.assertAlmostEqual(one, other, delta=2e-2)

    def test_an_estimate_for_a_gpu_is_what_it_takes(self):
        for family in ("gpt2", "llama"):
            for precision in ((), ("--bf16",)):
                options = (*NO_DROPOUT[family], *precision, "--model.vocab_size", "20000", "--per_device_train_batch_size", "32")
                with self.subTest(family=family, precision=precision):
                    folder = self.good(self.runs.train(family, options, 1, name="sized")).folder
                    taken = json.loads((folder / "train_results.json").read_text())["peak_device_memory_bytes_per_rank"]
                    out = self.good(self.runs.convoy(["estimate", f"{family}.toml", *options, "--on", "l4-24", "--json"])).out
                    told = next(row for row in json.loads(out) if row["asked"])["stages"][0]["sum"]
                    # In bf16 a GPU keeps less of what is normalised than the processor, whose sizes the others are.
                    self.assertGreater(told / taken, 0.98, f"{told} said, {taken} taken")
                    self.assertLess(told / taken, 1.06, f"{told} said, {taken} taken")

    def test_an_estimate_counts_the_reference_of_preferences(self):
        wide = ("--model.hidden_size", "640", "--model.intermediate_size", "1280", "--max_steps", "1")
        self.good(self.runs.train("llama", wide, 1, name="reference"))
        for options in ((), ("--bf16",)):
            options = (*options, "--ref_model_name_or_path", "reference")
            with self.subTest(options=options):
                folder = self.good(self.runs.train("llama_pairs", options, 1, name="pairs")).folder
                taken = json.loads((folder / "train_results.json").read_text())["peak_device_memory_bytes_per_rank"]
                out = self.good(self.runs.convoy(["estimate", "llama_pairs.toml", *options, "--on", "l4-24", "--json"])).out
                row = next(row for row in json.loads(out) if row["asked"])
                self.assertIn("with reference beside it", row["peak"])
                told = row["stages"][0]["sum"]
                self.assertLess(abs(told / taken - 1), 0.03, f"{told} said, {taken} taken")

    def test_generate_reads_a_head_of_16_bits_as_it_lies(self):
        vocabulary, width = 20000, 160
        self.good(self.runs.train("gpt2", ("--model.vocab_size", str(vocabulary), "--model.n_layer", "1", "--max_steps", "1"), 1,
                                  name="wide"))
        file = self.runs.folder / "counts"

        def operands(tokens):
            file.unlink(missing_ok=True)
            self.good(self.runs.convoy(["generate", "wide", "--prompt", "w03 w08 w15", "--max-new-tokens", str(tokens), "--bf16",
                                        "--device", "cuda"], 1, f"counts={file}"))
            return sum(numbers["operands"] for _, _, numbers in read_counts(file))

        # The matrix once, and all else. In 32 bits it would be written and read, four times as much again.
        self.assertLess((operands(5) - operands(1)) / 4, 3 * vocabulary * width * 2)

    def test_evaluate_and_predict_on_several_ranks(self):
        self.good(self.runs.train("gpt2", ("--data.valid", "text.txt"), 1, name="gpt2"))
        self.good(self.runs.train("session", (), 1, name="session"))
        for args in (("eval", "gpt2"), ("eval", "session"), ("predict", "session", "--rows", "5")):
            on_one = self.numbers_of(self.good(self.runs.convoy([*args, "--device", "cpu"])).out)
            for more in ((), TENSOR, ("--pipeline_parallel_size", "2")):
                with self.subTest(command=" ".join((*args, *more))):
                    out = self.good(self.runs.convoy([*args, *RANKS[2], *more, "--device", "cuda"], 2)).out
                    self.assertTrue(on_one)
                    for number, other in zip(self.numbers_of(out), on_one, strict=True):
                        self.assertAlmostEqual(number, other, delta=2e-4)  # of what is rounded to 1e-4

    def test_bench_step_tells_what_the_device_counts(self):
        known = dict(zip(COLUMNS, read()["gpt2", "fp32"]))
        out = self.good(self.runs.convoy(["bench", "step", "gpt2.toml", *NO_DROPOUT["gpt2"], "--steps", "2", "--warmup", "1",
                                          "--device", "cuda", "--json"], 1)).out
        told = json.loads(out)
        self.assertEqual(told["waits_per_step"], known["waits"])
        self.assertEqual(told["launches_per_step"], known["launches"])
        self.assertEqual(told["peak_tflops"], 67)
        self.assertGreater(told["mfu_percent"], 0)


class Plans(OnFakeGpus):
    def planned(self, gpus):
        # Of two rows all splits are predicted to 11 %, whichever the clock finds fastest.
        options = (*NO_DROPOUT["gpt2"], "--global_batch_size", "2")
        result = self.good(self.runs.train("gpt2", (*options, "--strategy", "plan", "--nproc", "2"), gpus, name="planned"))
        on_cpu = self.runs.known("gpt2", (*options, "--per_device_train_batch_size", "2"))
        self.assertLess(difference(result, on_cpu), 1e-5)
        plan = json.loads((result.folder / "plan.json").read_text())
        self.assertEqual(plan["for"]["device"], "gpu")
        results = json.loads((result.folder / "train_results.json").read_text())
        self.assertAlmostEqual(results["planned_memory_bytes_per_rank"] / results["peak_device_memory_bytes_per_rank"], 1,
                               delta=0.15)

    def test_ranks_plan_with_what_their_gpus_are_measured_to_do(self):
        self.planned(2)

    def test_ranks_that_share_a_gpu_plan_with_their_share_of_it(self):
        self.planned(1)
        # Its state takes 277 MiB.
        large = ("--model.vocab_size", "100000", "--global_batch_size", "4", "--strategy", "plan", "--nproc", "2")
        self.good(self.runs.train("gpt2", large, 1, "memory=400M"))
        said = self.runs.train("gpt2", large, 1, "memory=240M")
        self.assertEqual(said.code, 2, said.out)
        self.assertIn("no plan fits", said.out)

    def test_a_batch_is_found_for_what_is_free(self):
        args = (*NO_DROPOUT["gpt2"], "--per_device_train_batch_size", "64", "--auto_find_batch_size", "true")
        small, large = (self.good(self.runs.train("gpt2", args, 1, f"memory={size}M")) for size in (100, 1000))
        rows = [int(re.search(r"batch +(\d+) per device", result.out)[1]) for result in (small, large)]
        self.assertLess(rows[0], 64)
        self.assertEqual(rows[1], 64)
        self.assertLess(difference(small, large), 1e-5)


class Faults(OnFakeGpus):
    NCCL = (*RANKS[2], *batches(4, 1))

    def test_a_rank_killed_in_a_collective(self):
        result = self.runs.train("gpt2", self.NCCL, 2, environment=(("CONVOY_FAULT", "sigkill@1:reduce:2"),))
        self.assertEqual(result.code, 137, result.out)
        self.assertIn("rank 1 failed first", result.out)
        self.assertIn("`reduce bucket 0` of step 2", result.out)
        self.assertEqual(result.misuses, "")

    def test_a_rank_that_never_comes(self):
        result = self.runs.train("gpt2", (*self.NCCL, "--ddp_timeout", "3"), 2,
                                 environment=(("CONVOY_FAULT", "sigstop@1:reduce:2"),), timeout=60)
        self.assertEqual(result.code, 1, result.out)
        self.assertIn("[comm] 'reduce bucket 0' did not finish within 3 s on the GPU", result.out)
        self.assertEqual(result.misuses, "")

    def test_memory_that_runs_out_in_mid_backward(self):
        result = self.runs.train("gpt2", self.NCCL, 2, "oom=backward block 2")
        self.assertEqual(result.code, 1, result.out)
        self.assertIn("[memory] the device has no memory left", result.out)
        self.assertIn("while   `backward block 2, micro-batch 0` of step 1", result.out)
        self.assertEqual(result.misuses, "")


if __name__ == "__main__":
    unittest.main()
