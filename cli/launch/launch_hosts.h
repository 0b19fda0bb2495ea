#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>

#include "convoy/launch/hosts/host_agent.h"

namespace convoy::cli {

/// Adds an option under its name with dashes and, unlisted, with torchrun's underscores.
template <class T>
CLI::Option* add_option(CLI::App& command, const std::string& names, T& value,
                        const std::string& help) {
  CLI::Option* option = command.add_option(names, value, help);
  std::string longest = names.substr(names.rfind("--"));
  std::replace(longest.begin() + 2, longest.end(), '-', '_');
  if (!names.ends_with(longest)) command.add_option(longest, value)->group("");
  return option;
}

/// Options of `convoy launch` about several hosts, as typed.
struct HostArguments {
  std::string num_nodes;
  std::string hostfile;
  int node_rank = -1;
  std::string endpoint;
  std::string run_id = "none";
  std::string conf;
  std::string backend = "c10d";
  std::string token_file;
  std::string local_address;
  std::string master_addr;
  bool standalone = false;
  bool serve_only = false;  ///< the rendezvous, without ranks of this host

  void add_to(CLI::App& command);

  /// Takes the number of hosts, this one's place and the place where they join from the hostfile,
  /// if one was named. Returns the number of ranks that it wants on this host; 0: it does not say.
  /// Throws UsageError.
  int take_hostfile();

  /// Whether the number of hosts was said, be it 1.
  bool chosen() const { return !num_nodes.empty() || standalone; }

  /// Options of the hosts; nothing for a job on this host alone. Throws UsageError.
  std::optional<launch::HostOptions> read(const launch::LaunchOptions& launch) const;
};

}  // namespace convoy::cli
