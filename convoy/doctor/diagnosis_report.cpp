#include "convoy/doctor/diagnosis.h"

#include <fmt/format.h>

#include "convoy/base/text.h"
#include "convoy/report/table.h"

namespace convoy::doctor {
namespace {

using report::Align;
using report::Table;

std::string or_unknown(const std::string& text) {
  return text.empty() ? "unknown" : text;
}

std::string section(const char* title, const std::string& body) {
  std::string out = fmt::format("\n{}\n", title);
  for (const auto& line : split(body, '\n')) {
    if (!line.empty()) out += "  " + line + "\n";
  }
  return out;
}

std::string line(const std::string& label, const std::string& text) {
  return fmt::format("{:<14}{}\n", label, text);
}

std::string machine(const Diagnosis& d) {
  const auto& host = d.host;
  std::string out =
      line("processor",
           fmt::format("{}: {}, {}, {}", or_unknown(host.cpu), plural(host.sockets, "socket"),
                       plural(host.cores, "core"), plural(host.threads, "thread")));
  out += line("instructions",
              host.instructions.empty() ? "none that matter here" : join(host.instructions));
  out += line("memory", fmt::format("{}, {} available, {}", human_bytes(host.memory_bytes),
                                    human_bytes(host.available_bytes),
                                    host.swap_bytes > 0 ? human_bytes(host.swap_bytes) + " swap"
                                                        : "no swap"));
  for (const auto& node : host.nodes) {
    std::vector<std::string> distances;
    for (const int distance : node.distances) distances.push_back(std::to_string(distance));
    out += line(
        fmt::format("NUMA node {}", node.id),
        fmt::format("CPUs {}, {}{}{}", node.cpus.empty() ? "none" : compact_numbers(node.cpus, ","),
                    human_bytes(node.memory_bytes), distances.empty() ? "" : ", distances ",
                    join(distances, " ")));
  }
  if (d.cgroup.cpus > 0) out += line("CPU limit", fmt::format("{:.4g} CPUs", d.cgroup.cpus));
  if (d.cgroup.memory_bytes > 0) out += line("memory limit", human_bytes(d.cgroup.memory_bytes));
  for (size_t i = 0; i < d.gpus.gpus.size(); ++i) {
    const auto& gpu = d.gpus.gpus[i];
    out +=
        line(fmt::format("GPU {}", i),
             fmt::format(
                 "{} at {}{}{}{}", or_unknown(gpu.name), or_unknown(gpu.pci),
                 gpu.memory_bytes > 0 ? fmt::format(", {} of {} free", human_bytes(gpu.free_bytes),
                                                    human_bytes(gpu.memory_bytes))
                                      : "",
                 gpu.pcie_lanes > 0 ? fmt::format(", {} x{}", gpu.pcie_speed, gpu.pcie_lanes) : "",
                 gpu.nvlinks > 0 ? fmt::format(", {}", plural(gpu.nvlinks, "NVLink")) : ""));
  }
  if (d.gpus.gpus.empty()) out += line("GPUs", "none: " + d.gpus.why_none);
  for (const auto& link : d.gpus.links) {
    out += line(fmt::format("GPU {} to {}", link.a, link.b), link.path);
  }
  for (const auto& [name, version] : d.versions) out += line(name, version);
  out += line("fp32 products", d.matrix_kernels);
  return out;
}

std::string engines(const Diagnosis& d) {
  Table table;
  table.column("engine", Align::kLeft)
      .column("usable", Align::kLeft)
      .column("what for, or why not", Align::kLeft);
  for (const auto& engine : d.engines) {
    table.row({engine.name, engine.usable ? "yes" : "no", engine.text});
  }
  return table.to_text();
}

std::string rates(const Diagnosis& d) {
  Table table;
  table.column("device", Align::kLeft)
      .column("GEMM fp32, GFLOP/s")
      .column("GEMM bf16, GFLOP/s")
      .column("copy, GB/s");
  for (const auto& rate : d.rates) {
    table.row({rate.threads > 0 ? plural(rate.threads, "thread") : rate.device,
               fmt::format("{:.1f}", rate.fp32_gflops), fmt::format("{:.1f}", rate.bf16_gflops),
               fmt::format("{:.1f}", rate.copy_gb_per_second)});
  }
  return table.to_text();
}

std::string findings(const Diagnosis& d) {
  Table table;
  table.column("verdict", Align::kLeft)
      .column("about", Align::kLeft)
      .column("finding", Align::kLeft);
  for (const auto& finding : d.findings) {
    table.row({to_text(finding.severity), finding.about,
               finding.advice.empty() ? finding.text : finding.text + "; try: " + finding.advice});
  }
  return table.to_text();
}

std::string summary(const Diagnosis& d) {
  std::vector<std::string> parts;
  for (const auto severity : {Severity::Problem, Severity::Warning}) {
    int count = 0;
    for (const auto& finding : d.findings) count += finding.severity == severity;
    if (count > 0) parts.push_back(plural(count, to_text(severity)));
  }
  return parts.empty() ? "nothing is wrong" : join(parts);
}

Json limit(const std::optional<int64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json none_if_zero(int64_t value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

Json space(const machine::Space& space) {
  return {{"path", space.path},
          {"writable", space.writable},
          {"total_bytes", space.total_bytes},
          {"free_bytes", space.free_bytes}};
}

Json numa_json(const machine::Host& host) {
  Json out = Json::array();
  for (const auto& node : host.nodes) {
    out.push_back({{"id", node.id},
                   {"cpus", compact_numbers(node.cpus, ",")},
                   {"num_cpus", node.cpus.size()},
                   {"memory_bytes", node.memory_bytes},
                   {"free_bytes", node.free_bytes},
                   {"distances", node.distances}});
  }
  return out;
}

Json gpus_json(const machine::Gpus& gpus) {
  Json list = Json::array(), links = Json::array();
  for (const auto& gpu : gpus.gpus) {
    list.push_back({{"pci", gpu.pci},
                    {"name", gpu.name},
                    {"memory_bytes", none_if_zero(gpu.memory_bytes)},
                    {"free_bytes", gpu.memory_bytes > 0 ? Json(gpu.free_bytes) : Json(nullptr)},
                    {"numa_node", gpu.numa_node >= 0 ? Json(gpu.numa_node) : Json(nullptr)},
                    {"pcie_lanes", none_if_zero(gpu.pcie_lanes)},
                    {"most_pcie_lanes", none_if_zero(gpu.most_pcie_lanes)},
                    {"pcie_speed", gpu.pcie_speed},
                    {"nvlinks", gpu.nvlinks}});
  }
  for (const auto& link : gpus.links)
    links.push_back({{"gpus", {link.a, link.b}}, {"path", link.path}});
  return {{"driver", gpus.driver}, {"gpus", list}, {"links", links}, {"why_none", gpus.why_none}};
}

Json rates_json(const std::vector<Rate>& rates) {
  Json out = Json::array();
  for (const auto& rate : rates) {
    out.push_back({{"device", rate.device},
                   {"threads", none_if_zero(rate.threads)},
                   {"gemm_fp32_gflops", rate.fp32_gflops},
                   {"gemm_bf16_gflops", rate.bf16_gflops},
                   {"copy_gb_per_second", rate.copy_gb_per_second}});
  }
  return out;
}

}  // namespace

std::string to_text(const Diagnosis& d) {
  std::string out = fmt::format("{}: {}\n", or_unknown(d.host.name), or_unknown(d.host.system));
  out += section("machine", machine(d));
  out += section("engines", engines(d));
  if (!d.rates.empty()) out += section("measured", rates(d));
  out += section("findings", findings(d));
  return out + "\n" + summary(d) + "\n";
}

Json to_json(const Diagnosis& d) {
  const auto& host = d.host;
  const auto& limits = d.limits;
  Json engines = Json::array(), versions = Json::object();
  for (const auto& engine : d.engines) {
    engines.push_back({{"name", engine.name}, {"usable", engine.usable}, {"text", engine.text}});
  }
  for (const auto& [name, version] : d.versions) versions[name] = version;
  return {{"host", host.name},
          {"system", host.system},
          {"cpu",
           {{"name", host.cpu},
            {"sockets", host.sockets},
            {"cores", host.cores},
            {"threads", host.threads},
            {"usable_threads", limits.usable_cpus},
            {"instructions", host.instructions}}},
          {"memory",
           {{"total_bytes", host.memory_bytes},
            {"available_bytes", host.available_bytes},
            {"swap_bytes", host.swap_bytes},
            {"huge_pages", host.huge_pages},
            {"overcommit", host.overcommit}}},
          {"numa_nodes", numa_json(host)},
          {"control_group",
           {{"cpus", d.cgroup.cpus > 0 ? Json(d.cgroup.cpus) : Json(nullptr)},
            {"memory_bytes", none_if_zero(d.cgroup.memory_bytes)},
            {"processes", none_if_zero(d.cgroup.processes)}}},
          {"gpus", gpus_json(d.gpus)},
          {"limits",
           {{"open_files", limit(limits.open_files)},
            {"most_open_files", limit(limits.most_open_files)},
            {"processes", limit(limits.processes)},
            {"locked_memory_bytes", limit(limits.locked_bytes)}}},
          {"spaces",
           {{"shared_memory", space(limits.shared_memory)},
            {"temporary", space(limits.temporary)},
            {"here", space(limits.here)}}},
          {"versions", versions},
          {"engines", engines},
          {"measured", rates_json(d.rates)},
          {"findings", to_json(d.findings)},
          {"verdict", to_text(worst(d.findings))}};
}

}  // namespace convoy::doctor
