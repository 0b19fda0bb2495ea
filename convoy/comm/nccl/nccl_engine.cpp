#include "convoy/comm/nccl/nccl_engine.h"

#include <ATen/ATen.h>
#include <dlfcn.h>

#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/comm/c10d_engine.h"
#include "convoy/comm/cuda.h"
#include "convoy/comm/nccl/plugin.h"
#include "convoy/comm/pending.h"
#include "convoy/comm/staged_engine.h"

namespace convoy::comm {

namespace {

struct Plugin {
  MakeNcclBackend make = nullptr;
  std::string why;
};

Plugin open() {
  Plugin plugin;
  for (const auto& folder : plugin_folders()) {
    const auto file = folder / "libconvoy_nccl.so";
    if (!std::filesystem::exists(file)) continue;
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      plugin.why = ::dlerror();
      return plugin;
    }
    plugin.make = reinterpret_cast<MakeNcclBackend>(::dlsym(library, kMakeNcclBackend));
    if (plugin.make == nullptr) plugin.why = file.string() + " is of another version";
    return plugin;
  }
  plugin.why = "there is no libconvoy_nccl.so in " + plugin_folders().front().string() +
               "; it is built where the NVIDIA wheels are: try ./dev build --gpu";
  return plugin;
}

const Plugin& plugin() {
  static const Plugin opened = open();
  return opened;
}

}  // namespace

void connect_now(Engine& engine, at::Device device) {
  engine.all_reduce(at::zeros({1}, device), ReduceOp::Sum, {"connect the GPUs"});
  finish_pending();
}

bool has_nccl(std::string* why) {
  if (why != nullptr) *why = plugin().why;
  return plugin().make != nullptr;
}

std::shared_ptr<Engine> make_nccl_engine(const StoreAddress& point,
                                         const c10::intrusive_ptr<c10d::Store>& store,
                                         at::Device device) {
  std::string why;
  if (!has_nccl(&why)) fail<UsageError>("comm", "backend = nccl cannot be used: {}", why);
  // Torch's watchdog ends the process without a word of who is missing: it is off, and its clock
  // runs out after that of finish_pending().
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/0);
  constexpr std::chrono::seconds kLater{60};
  try {
    c10::intrusive_ptr<c10d::Backend> backend;
    plugin().make({store, point.rank, point.size, point.timeout + kLater}, backend);
    auto engine =
        make_staged_engine(make_c10d_engine("nccl", backend, point.names, point.timeout), device);
    connect_now(*engine, device);
    return engine;
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const CommunicationError*>(&error);
    throw CommunicationError(fmt::format("[comm] rank {} of {} could not join the NCCL group: {}",
                                         point.rank, point.size, reason_of(error)),
                             known != nullptr ? known->missing() : std::vector<int>{});
  }
}

Group make_nccl_group(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
                      at::Device device) {
  return Group(point.rank, point.size, make_nccl_engine(point, store, device));
}

}  // namespace convoy::comm
