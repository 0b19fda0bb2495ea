#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/checkpoint/carried.h"

namespace convoy::train {

/// A file that is kept under a name that a reader looks for.
struct KeptFile {
  KeptFile(const std::filesystem::path& file) : path(file), name(file.filename().string()) {}
  KeptFile(std::filesystem::path file, std::string as)
      : path(std::move(file)), name(std::move(as)) {}

  std::filesystem::path path;
  std::string name;
};

/// Files that every checkpoint carries beside weights and state.
struct ModelFiles {
  Json config;                               ///< `config.json`
  std::map<std::string, std::string> texts;  ///< small files: name -> content
  /// Keys of it that no model reads: those of a checkpoint to go on from may differ.
  std::vector<std::string> unread_keys;
  std::vector<KeptFile> copies;  ///< larger ones, copied
  /// Weights that go into every saved model beside those that are trained; null = none.
  std::shared_ptr<const checkpoint::Carried> carried;
  std::string encoding;  ///< maker of the data's ids, with its fingerprint; "" = none
  /// Names that a reader of the folder looks for, whether this run writes them or not: such a file
  /// of another run would pass for this one's.
  std::vector<std::string> looked_for;
  std::vector<std::string> inputs;  ///< files that are read (or ""); a run never writes beside them
};

}  // namespace convoy::train
