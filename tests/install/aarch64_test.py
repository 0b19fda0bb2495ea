#!/usr/bin/env python3
"""What `./dev build --target aarch64` builds, under qemu: the tests of components without torch, and trainings with the losses of x86.

    tests/install/aarch64_test.py BUILD [TEST...]

BUILD is the folder of the x86 build. Ends with 77 where Debian's cross compiler, qemu-user-static or user namespaces are missing.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
ARM = ROOT / "build-aarch64"
SKIPPED = 77
COMPONENTS = ("base", "formats", "parallel", "planner", "conformance", "tokenizers", "jinja", "report", "machine", "doctor", "trials",
              "launch", "data", "prepare", "chat", "shm")
# What fails under qemu or as the namespace's root, and not for Arm: limits on threads, filters of system calls, processes that are
# adopted, times, and files that root may not read.
NOT_UNDER_QEMU = {
    "base": ("Scratch.AThreadThatCannotStartIsAnError",),
    "launch": ("Agents.GoOnWithoutTheFirstWhereAnotherServes", "Supervision.NeedsNoNewSystemCalls", "Supervision.ADaemon*",
               "Process.LeavesNoDaemonBehind"),
    "planner": ("Speed.EightyBlocksOnManyRanks",),
    "prepare": ("HardInputs.ErrorsNameFilesThatMayNotBeReadOrWritten",),
}
SESSIONS = ("--data.path", "sessions", "--d_model", "32", "--n_layer", "2", "--n_head", "2")
GPT2 = ("--model_type", "gpt2", "--random_tokens", "2000", "--vocab_size", "100", "--block_size", "32", "--n_embd", "32", "--n_layer", "2",
        "--n_head", "2")
# (ranks, model, strategy)
TRAININGS = ((1, SESSIONS, ()), (2, SESSIONS, ()), (2, SESSIONS, ("--zero", "3")), (2, SESSIONS, ("--pipeline_parallel_size", "2")),
             (2, SESSIONS, ("--tensor_parallel_size", "2")), (1, GPT2, ()), (2, GPT2, ("--context_parallel_size", "2")))
# torch's wheel for Arm crashes where /proc/cpuinfo is that of another processor.
CPUINFO = "".join(f"""processor\t: {number}
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

""" for number in range(os.cpu_count()))
TRAIN = ("train", "--max_steps", "8", "--logging_steps", "1", "--save_strategy", "no", "--quiet")
# Programs for Arm start under qemu in a namespace of their own: the machine's own table of programs stays as it is.
IN_NAMESPACE = r"""
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || exit 77
printf '%s' ':aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F' >/proc/sys/fs/binfmt_misc/register || exit 77
mount --bind "$CPUINFO" /proc/cpuinfo || exit 77
exec "$@"
"""


def under_qemu(*command, **options):
    with tempfile.NamedTemporaryFile("w") as cpuinfo:
        cpuinfo.write(CPUINFO)
        cpuinfo.flush()
        environment = dict(os.environ, QEMU_LD_PREFIX="/usr/aarch64-linux-gnu", QEMU_CPU="neoverse-n1", CPUINFO=cpuinfo.name,
                           OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", IN_NAMESPACE, "bash",
                               *map(str, command)], env=environment, capture_output=True, text=True, **options)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


class Arm(unittest.TestCase):
    def test_components_without_torch(self):
        for component in COMPONENTS:
            with self.subTest(component=component):
                unwanted = ":".join(NOT_UNDER_QEMU.get(component, ()))
                done = under_qemu(ARM / f"tests/test_{component}", "--gtest_brief=1", f"--gtest_filter=-{unwanted}", cwd=ARM)
                self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-1000:])

    def test_trains_with_the_losses_of_x86(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="convoy_arm_"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")

        def losses(name):
            lines = map(json.loads, (folder / name / "log.jsonl").read_text().splitlines())
            return [line["loss"] for line in lines if "loss" in line]

        subprocess.run([BUILD / "bin/convoy", "data", "synthetic", "--output", "sessions", "--rows", "300", "--items", "50"], cwd=folder,
                       check=True, stdout=subprocess.DEVNULL)
        for ranks, model, strategy in TRAININGS:
            with self.subTest(ranks=ranks, model=model, strategy=strategy):
                command = (*TRAIN, *model, *strategy, "--nproc", str(ranks), "--output_dir")
                subprocess.run([BUILD / "bin/convoy", *command, "x86"], cwd=folder, env=environment, check=True)
                done = under_qemu(ARM / "bin/convoy", *command, "arm", cwd=folder)
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
                self.assertEqual(len(losses("arm")), 8)
                for here, there in zip(losses("x86"), losses("arm"), strict=True):
                    self.assertAlmostEqual(here, there, delta=1e-6)
                for name in ("x86", "arm"):
                    shutil.rmtree(folder / name)


if __name__ == "__main__":
    if not shutil.which("apt-get") or under_qemu("true").returncode == SKIPPED:
        skip("needs Debian's packages, qemu-user-static and namespaces in which programs can be registered")
    targets = ["convoy", *(f"test_{component}" for component in COMPONENTS)]
    subprocess.run([ROOT / "dev", "build", "release", *targets, "--target", "aarch64"], check=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
