#include "tests/fake_gpu/host_compiler.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace convoy::fake_gpu {

namespace {

namespace fs = std::filesystem;

// Variables of functions are each library's own.
constexpr const char* kOptions = " -std=c++17 -O2 -w -shared -fPIC -fno-gnu-unique -o ";

fs::path folder() {
  const char* temporary = std::getenv("TMPDIR");
  const auto out = fs::path(temporary != nullptr ? temporary : "/tmp") /
                   ("convoy_fake_gpu_" + std::to_string(::getuid()));
  fs::create_directories(out);
  return out;
}

}  // namespace

std::string compile_on_host(const std::string& source) {
  const auto name = std::to_string(std::hash<std::string>{}(kOptions + source));
  const auto library = folder() / (name + ".so");
  if (fs::exists(library)) return library.string();
  const auto own = name + "_" + std::to_string(::getpid());
  const auto text = folder() / (own + ".cpp"), made = folder() / (own + ".so"),
             messages = folder() / (own + ".txt");
  std::ofstream(text) << source;
  const char* compiler = std::getenv("CXX");
  const auto command = std::string(compiler != nullptr ? compiler : "c++") + kOptions +
                       made.string() + " " + text.string() + " > " + messages.string() + " 2>&1";
  const bool failed = std::system(command.c_str()) != 0;
  std::ifstream said(messages);
  std::stringstream all;
  all << said.rdbuf();
  fs::remove(text);
  fs::remove(messages);
  TORCH_CHECK(!failed, "fake_gpu: the kernel cannot be compiled: ", all.str());
  fs::rename(made, library);
  return library.string();
}

void* open_library(const std::string& path) {
  void* opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(opened != nullptr, "fake_gpu: ", ::dlerror());
  return opened;
}

}  // namespace convoy::fake_gpu
