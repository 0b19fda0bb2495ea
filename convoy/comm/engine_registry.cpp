#include "convoy/comm/engine_registry.h"

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/gloo/gloo_engine.h"
#include "convoy/comm/hierarchy/hierarchy_engine.h"
#include "convoy/comm/nccl/nccl_engine.h"
#include "convoy/comm/shm/shm_engine.h"

namespace convoy::comm {

namespace {

/// Table of the engines. `auto` takes the first one that supports the group.
std::vector<EngineEntry>& engines() {
  static std::vector<EngineEntry> all{
      {"nccl", true,
       [](const Gathering& m) {
         const auto why = why_not_nccl(m.nccl);
         return why.empty() ? "" : "cannot be used: " + why;
       },
       [](const Gathering& m) { return make_nccl_group(m.point, m.store, m.device); }},
      {"shm", false,
       [](const Gathering& m) {
         return m.num_hosts == 1
                    ? std::string()
                    : fmt::format("is for ranks of one host and user; got {} hosts", m.num_hosts);
       },
       [](const Gathering& m) { return make_shm_group(m.point, m.store); }},
      {nullptr, false,
       [](const Gathering& m) {
         return std::string(m.num_hosts < m.point.size ? "" : "is for several ranks of a host");
       },
       [](const Gathering& m) { return make_hierarchy_group(m.point, m.store, m.hosts); }},
      {"gloo", false, [](const Gathering&) { return std::string(); },
       [](const Gathering& m) { return make_gloo_group(m.point, m.store); }},
  };
  return all;
}

}  // namespace

void add_engine(const EngineEntry& entry) {
  for (const auto& name : engine_names()) {
    internal_check(name != entry.name, "comm", "there is an engine {} already", name);
  }
  engines().push_back(entry);
}

std::vector<std::string> engine_names(bool without_gpus) {
  std::vector<std::string> names;
  for (const auto& engine : engines()) {
    if (engine.name == nullptr || (without_gpus && engine.needs_gpus)) continue;
    names.emplace_back(engine.name);
  }
  return names;
}

void check_backend(const std::string& backend, at::Device device) {
  for (const auto& engine : engines()) {
    if (engine.name == nullptr || backend != engine.name) continue;
    if (!engine.needs_gpus || !device.is_cpu()) return;
    fail<UsageError>("parallel", "backend = {} needs GPUs; got CPU; try backend = auto", backend);
  }
}

Group make_group(const Gathering& gathering, const std::string& backend) {
  for (const auto& engine : engines()) {
    const bool asked = engine.name != nullptr && backend == engine.name;
    if (!asked && backend != "auto") continue;
    const auto why_not = engine.why_not(gathering);
    if (why_not.empty()) return engine.make(gathering);
    if (!asked) continue;
    fail<UsageError>("parallel", "backend = {} {}; try backend = auto", backend, why_not);
  }
  fail<UsageError>("parallel", "backend = {} is unknown; expected auto or one of {}", backend,
                   join(engine_names()));
}

}  // namespace convoy::comm
