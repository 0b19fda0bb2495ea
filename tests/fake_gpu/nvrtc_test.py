#!/usr/bin/env python3
"""The texts of kernels for GPUs compile by NVIDIA's compiler, as torch or convoy hands them to it; no GPU is needed.

CONVOY_NVRTC is its library, libnvrtc.so.13 of the wheel nvidia-cuda-nvrtc; else the one among torch's wheels. Without
any the test is skipped (exit code 77).
"""
import ctypes
import itertools
import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
MAX_REGISTERS = 64  # of a thread: a multiprocessor then has 1,024 threads at least


def of_width(width, threads, layer, kind="unsigned short"):
    """Definitions before add_norm.cu."""
    numbers = {"WIDTH": width, "THREADS": threads, "LAYER": layer, "ADDED": kind, "ROW": kind, "WEIGHT": kind}
    return "".join(f"#define CONVOY_{name} {value}\n" for name, value in numbers.items())


# (definitions, most registers) with which a file is compiled beside its own.
VARIANTS = {
    "add_norm.cu": [(of_width(64, 32, 1, "float"), 64), (of_width(768, 192, 1), 64), (of_width(4096, 512, 0), 64),
                    (of_width(8192, 512, 1), 128)],  # rows in registers: a quarter of the threads
    "gated.cu": [("#define CONVOY_VALUE float\n#define CONVOY_SHARE convoy_share\n", 64)],
    "softmax.cu": [("#define CONVOY_SCORE float\n#define CONVOY_THREADS 32\n", 64)],
}
# As torch's at::cuda::jit has them.
PRELUDE = r"""
namespace at {
struct alignas(2) BFloat16 {
  unsigned short x;
  BFloat16() = default;
  inline __host__ __device__ BFloat16(float value) { asm("{ cvt.rn.bf16.f32 %0, %1;}\n" : "=h"(x) : "f"(value)); }
  inline __host__ __device__ operator float() const {
    float val;
    asm("{ mov.b32 %0, {0,%1};}\n" : "=f"(val) : "h"(x));
    return val;
  }
};
struct alignas(2) Half {
  unsigned short x;
  Half() = default;
  inline __host__ __device__ Half(float value) { asm("{ cvt.rn.f16.f32 %0, %1;}\n" : "=h"(x) : "f"(value)); }
  inline __host__ __device__ operator float() const {
    float val;
    asm("{ cvt.f32.f16 %0, %1;}\n" : "=f"(val) : "h"(x));
    return val;
  }
};
}
"""


def texts():
    """Maps the name of each text to it, in one line, as the macro makes it."""
    out = {}
    for path in sorted([*(ROOT / "convoy/nn").rglob("*device*"), *(ROOT / "convoy/nn").rglob("*_text.h")]):
        source = re.sub(r"//[^\n]*", "", path.read_text())
        if found := re.search(r"kFastMathText =((?:\s*\"[^\n]*\")+);", source):
            out["kFastMathText"] = "".join(re.findall(r'"([^"\n]*)"', found[1]))
        for name, text in re.findall(r"(?<!define )CONVOY_HOST_AND_GPU\((\w+),(.*?)\n\)\n", source, re.S):
            out[name] = " ".join(text.split())
    return out


def kernels(text):
    """(name, number of tensors, types of the other arguments) of the functions that torch calls."""
    for name, arguments in re.findall(r"template <typename T> T (\w+)\((.*?)\) {", text):
        types = [argument.rsplit(" ", 1)[0] for argument in arguments.split(", ")]
        yield name, types.count("T"), [kind for kind in types if kind != "T"]


def find_library():
    if given := os.environ.get("CONVOY_NVRTC"):
        return given
    found = [str(path) for folder in ROOT.glob(".venv/lib/python3*/site-packages/nvidia") for path in
             sorted(folder.glob("*/lib/libnvrtc.so.*"))]
    return found[0] if found else None


class Nvrtc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nvrtc = ctypes.CDLL(find_library())

    def compiled(self, source, architecture, more=("-default-device",)):
        """Whether the compiler takes a text, and what it says of it."""
        program = ctypes.c_void_p()
        self.assertEqual(self.nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None), 0)
        options = [option.encode() for option in ("--std=c++17", f"--gpu-architecture={architecture}", *more)]
        code = self.nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        size = ctypes.c_size_t()
        self.nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.nvrtc.nvrtcGetProgramLog(program, log)
        self.nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        return code == 0, log.value.decode()

    def test_all_texts(self):
        found = texts()
        self.assertGreaterEqual(len(found), 5, found.keys())
        bits = found.pop("kFastMathText") + " " + found.pop("kBitsText")
        for text in found.values():
            functions = list(kernels(text))
            self.assertTrue(functions)
            for name, tensors, others in functions:
                self.assertLessEqual(tensors + 1, 8, f"{name}: torch takes eight tensors, with what comes out")
                whole = name in ("convoy_dropout_mask", "convoy_add_dropped", "convoy_dropped")
                packed = name.endswith("_packed")
                for kind in ("long long",) if packed else ("int",) if whole else ("float", "at::BFloat16", "at::Half"):
                    arguments = [f"in[{k}][i]" for k in range(tensors)] + [f"other_{k}" for k in range(len(others))]
                    parameters = "".join(f", {other} other_{k}" for k, other in enumerate(others))
                    source = (f"{PRELUDE} {bits} {text}\nextern \"C\" __global__ void run({kind}* out, const {kind}** in"
                              f"{parameters}) {{\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                              f"  out[i] = {name}<{kind}>({', '.join(arguments)});\n}}\n")
                    for architecture in ARCHITECTURES:
                        with self.subTest(kernel=name, type=kind, architecture=architecture):
                            taken, said = self.compiled(source, architecture)
                            self.assertTrue(taken, said)

    def test_own_kernels_spill_no_registers(self):
        numbers, known = (ROOT / "convoy/gpu/numbers.cu").read_text(), texts()
        before = {"gated.cu": " ".join(known[name] for name in ("kFastMathText", "kBitsText", "kActivationText")) + "\n"}
        files = sorted(set((ROOT / "convoy").rglob("*.cu")) - {ROOT / "convoy/gpu/numbers.cu"})
        self.assertTrue(files)
        cases = [(file, *variant) for file in files for variant in (("", MAX_REGISTERS), *VARIANTS.get(file.name, ()))]
        for (file, definitions, most), architecture in itertools.product(cases, ARCHITECTURES):
            with self.subTest(file=file.name, definitions=definitions, architecture=architecture):
                text = definitions + numbers + before.get(file.name, "") + file.read_text()
                taken, said = self.compiled(text, architecture, ("-default-device", "--ptxas-options=-v"))
                self.assertTrue(taken, said)
                kernels = len(re.findall(r"__global__", text))
                spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said)
                self.assertEqual(spills, [("0", "0", "0")] * kernels, said)
                registers = [int(number) for number in re.findall(r"Used (\d+) registers", said)]
                self.assertEqual(len(registers), kernels)
                self.assertLessEqual(max(registers), most, said)

    def test_a_fault_is_told(self):
        taken, said = self.compiled("nothing of C", ARCHITECTURES[0])
        self.assertFalse(taken)
        self.assertIn("error", said)


if __name__ == "__main__":
    if find_library() is None:
        print("skipped: no libnvrtc.so.* (pip install nvidia-cuda-nvrtc, or CONVOY_NVRTC)")
        sys.exit(77)
    unittest.main()
