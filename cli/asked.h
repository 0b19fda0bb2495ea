#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/program.h"

// Common parts of commands that ask about a run and train nothing.
namespace convoy::cli {

/// Adds config: the run's file or a model's folder.
void add_config(CLI::App& command, std::string& config);

/// Adds config and --ranks; `which_ranks` describes these.
void add_asked(CLI::App& command, std::string& config, int& ranks, const std::string& which_ranks);

/// Throws UsageError where --device, which is for this host, names a kind of device that --on
/// knows.
void refuse_kind_as_device(const std::vector<std::string>& args);

/// Throws UsageError, before anything is measured, where an option names a file that cannot be
/// written: a folder, in none, or the run's own; `example` is a name in such a folder.
void check_place(const std::string& option, const std::string& file, const std::string& config,
                 const std::string& example);

/// A run with its data and model, of which nothing is trained.
struct Asked {
  std::unique_ptr<Configured> configured;
  tasks::Run run;
};

struct AskOptions {
  bool tells = true;       ///< print notes for a person
  bool needs_data = true;  ///< else random rows stand for files that are not there
};

/// Throws UsageError for options that a training refuses.
Asked ask_about(const std::string& config, const AskOptions& options = {});

}  // namespace convoy::cli
