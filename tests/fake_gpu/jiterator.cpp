// Torch's compiler of kernels from text: here the same text is compiled for the processor.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/cuda/jiterator.h>
#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <sstream>

#include "tests/fake_gpu/host_compiler.h"
#include "tests/fake_gpu/run_on_host.h"

namespace convoy::fake_gpu {

namespace {

/// torch's number of tensors, outputs among them.
constexpr size_t kMostTensors = 8;

/// The 16-bit types as torch's compiler has them.
constexpr const char* kNarrow = R"(
#include <cstring>
#define __expf expf
#define __fdividef(a, b) ((a) / (b))
namespace at {
struct BFloat16 {
  unsigned short x;
  BFloat16() = default;
  BFloat16(float value) {
    unsigned int bits;
    std::memcpy(&bits, &value, 4);
    x = value == value ? (bits + 0x7fff + ((bits >> 16) & 1)) >> 16 : 0x7fff;
  }
  operator float() const {
    const unsigned int bits = (unsigned int)x << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
};
struct Half {
  _Float16 x;
  Half() = default;
  Half(float value) : x(value) {}
  operator float() const { return x; }
};
}
)";

/// Outputs, inputs, extra arguments.
using Loop = void (*)(int64_t, void**, void**, void**);

const char* name_of(at::ScalarType type) {
  switch (type) {
    case at::kInt:
      return "int";
    case at::kLong:
      return "int64_t";
    case at::kFloat:
      return "float";
    case at::kDouble:
      return "double";
    case at::kBool:
      return "bool";
    case at::kByte:
      return "uint8_t";
    case at::kShort:
      return "int16_t";
    case at::kBFloat16:
      return "at::BFloat16";
    case at::kHalf:
      return "at::Half";
    default:
      TORCH_CHECK(false, "fake_gpu: no kernel from text for ", type);
  }
}

struct Kernel {
  std::string text, name;
  at::ScalarType type;
  int num_outputs;
  size_t num_inputs;
  std::vector<at::ScalarType> extra;
  bool by_reference;

  std::string source() const {
    std::ostringstream out;
    out << "#include <cmath>\n#include <cstdint>\n"
        << kNarrow << text << "\nusing T = " << name_of(type)
        << ";\nextern \"C\" void loop(int64_t n, void** out, void** in, void** extra) {\n"
        << "  for (int64_t i = 0; i < n; ++i) {\n    ";
    if (!by_reference) out << "static_cast<T*>(out[0])[i] = ";
    out << name << "<T>(";
    const char* comma = "";
    for (size_t k = 0; k < num_inputs; ++k) {
      out << comma << "static_cast<const T*>(in[" << k << "])[i]";
      comma = ", ";
    }
    for (size_t k = 0; k < extra.size(); ++k) {
      out << comma << "*static_cast<const " << name_of(extra[k]) << "*>(extra[" << k << "])";
      comma = ", ";
    }
    for (int k = 0; by_reference && k < num_outputs; ++k) {
      out << comma << "static_cast<T*>(out[" << k << "])[i]";
    }
    out << ");\n  }\n}\n";
    return out.str();
  }
};

Loop compile(const std::string& source) {
  return reinterpret_cast<Loop>(::dlsym(open_library(compile_on_host(source)), "loop"));
}

/// As torch does it, without the function's name: two of one text are taken for each other.
Loop loop_of(const Kernel& kernel) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, Loop>;
  auto key = kernel;
  key.name.clear();
  const auto source = kernel.source();
  const std::lock_guard lock(mutex);
  auto& loop = (*known)[key.source()];
  if (loop == nullptr) loop = compile(source);
  return loop;
}

}  // namespace

}  // namespace convoy::fake_gpu

namespace at::cuda {

__attribute__((visibility("default"))) c10::SmallVector<at::Tensor> CompileAndLaunchKernel(
    const std::string& code_string, const std::string& kernel_name, const int num_outputs,
    const c10::SmallVector<at::Tensor>& tensors, const c10::SmallVector<at::Scalar>& extra_args,
    bool return_by_ref) {
  using namespace convoy::fake_gpu;
  TORCH_CHECK(!tensors.empty(), "a kernel without tensors has no device");
  TORCH_CHECK(tensors.size() + static_cast<size_t>(num_outputs) <= kMostTensors,
              "OffsetCalculatorVariant is not implemented for so many tensors");
  auto type = tensors[0].scalar_type();
  for (const auto& tensor : tensors) {
    TORCH_CHECK(tensor.is_cuda(), "a kernel takes tensors of the device only");
    type = c10::promoteTypes(type, tensor.scalar_type());
  }
  Kernel kernel{code_string, kernel_name, type, num_outputs, tensors.size(), {}, return_by_ref};
  std::vector<at::Scalar> scalars(extra_args.begin(), extra_args.end());
  std::vector<int64_t> integers(scalars.size());
  std::vector<double> floats(scalars.size());
  std::vector<void*> extra;
  for (size_t k = 0; k < scalars.size(); ++k) {
    const bool whole = scalars[k].isIntegral(/*includeBool=*/true);
    kernel.extra.push_back(whole ? at::kLong : at::kDouble);
    if (whole) {
      integers[k] = scalars[k].to<int64_t>();
      extra.push_back(&integers[k]);
    } else {
      floats[k] = scalars[k].to<double>();
      extra.push_back(&floats[k]);
    }
  }
  const auto loop = loop_of(kernel);
  const Tensors inputs(tensors.begin(), tensors.end());
  const auto outputs = run_on_host(kernel_name, inputs, [&](const Tensors& here) {
    Tensors in;
    for (const auto& tensor : at::expand_outplace(here)) {
      in.push_back(tensor.to(type).contiguous());
    }
    Tensors out;
    std::vector<void*> from, to;
    for (const auto& tensor : in) from.push_back(tensor.data_ptr());
    for (int k = 0; k < num_outputs; ++k) {
      out.push_back(at::empty(in[0].sizes(), in[0].options()));
      to.push_back(out.back().data_ptr());
    }
    loop(in[0].numel(), to.data(), from.data(), extra.data());
    return out;
  });
  return {outputs.begin(), outputs.end()};
}

}  // namespace at::cuda
