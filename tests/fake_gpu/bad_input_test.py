#!/usr/bin/env python3
"""What a machine can have wrong about its GPUs: one sentence each, that says what to do."""
import unittest

from layouts import RANKS, batches
from layouts_test import OnFakeGpus
from runs import difference


class BadInput(OnFakeGpus):
    def refused(self, code, sentence, args=(), gpus=1, options="", environment=()):
        result = self.runs.train("gpt2", args, gpus, options, environment, timeout=30)
        errors = [line for line in result.out.splitlines() if line.startswith("convoy: error")]
        self.assertEqual(result.code, code, result.out)
        self.assertEqual(len(errors), 2 if "--nproc" in args else 1, result.out)
        for error in errors:
            self.assertIn(sentence, error)
        self.assertEqual(result.misuses, "")

    def test_a_driver_too_old(self):
        self.refused(2, "torch can use no GPU; it says: CUDA initialization: The NVIDIA driver on your system is too old "
                     "(found version 12040)", options="pretend=old_driver")

    def test_memory_that_another_program_holds(self):
        self.refused(1, "2.00 MiB is free. Process 4242 has 98.00 MiB memory in use", options="memory=100M,held=98M")

    def test_visible_devices_of_nonsense(self):
        for nonsense in ("nonsense", "7", "-1", "", "GPU-123"):
            with self.subTest(nonsense):
                self.refused(2, "is CUDA_VISIBLE_DEVICES right" if nonsense == "GPU-123" else "CUDA_VISIBLE_DEVICES hides it",
                             environment=(("CUDA_VISIBLE_DEVICES", nonsense),))

    def test_nccl_that_cannot_reach_a_rank(self):
        for sentence in ("could not join the NCCL group: 'connect the GPUs' did not finish",
                         "connect to 10.0.0.2<40001> returned No route to host"):
            self.refused(3, sentence, (*RANKS[2], *batches(4, 1)), 2, "pretend=no_route")

    def test_two_ranks_on_one_gpu_over_nccl(self):
        result = self.runs.train("gpt2", (*RANKS[2], *batches(4, 1)), 1, timeout=30)
        self.assertEqual(result.code, 2, result.out)
        self.assertIn("nccl", result.out)

    def test_an_architecture_that_the_wheel_lacks(self):
        self.refused(1, "no kernel image is available for execution on the device; this build of torch has no kernels for a GPU so "
                     "new or so old; try another version (TORCH=VERSION ./dev build --gpu), or --device cpu", options="pretend=no_kernel")

    def test_a_driver_that_takes_no_kernel_of_ours(self):
        result = self.good(self.runs.train("gpt2", (), 1, "pretend=no_modules"))
        for kernel in ("convoy_clip", "convoy_adamw"):
            self.assertIn(f"a kernel for this GPU could not be compiled or run; got '{kernel}: cuModuleLoadData failed", result.out)
        self.assertIn("torch's own, slower operations run in its place", result.out)
        own = self.good(self.runs.train("gpt2", (), 1))
        self.assertNotIn("could not be compiled", own.out)
        self.assertLess(difference(own, result), 1e-5)


if __name__ == "__main__":
    unittest.main()
