#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "convoy/checkpoint/weights.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy::checkpoint {

/// A tensor of a file, in the mapped memory.
at::Tensor mapped(const formats::SafetensorsFolder& file, const std::string& name);

/// Name in the model of the weight that a file calls `file_name`.
std::string model_name(const std::string& file_name, const models::WeightLayout& layout);

/// Whether a weight of a file belongs to a wrapper's other parts.
bool is_of_others(const std::string& file_name, const models::WeightLayout& layout);

/// Throws FileError with a list of what is wrong.
[[noreturn]] void refuse(const std::filesystem::path& path, const char* what,
                         std::vector<std::string> wrong);

/// Finds each tensor of a state in a file, and everything that does not fit.
class Matching {
 public:
  /// Throws FileError that names all of it.
  Matching(const formats::SafetensorsFolder& file, const parallel::State& state,
           const models::WeightLayout& layout);

  /// The name in the file of a tensor that is to be read.
  const std::map<std::string, std::string>& sources() const { return source_of_; }
  /// First element of a tensor in that of the file, where the file's holds several one after the
  /// other: matrices of all experts of a layer. Others begin at 0.
  int64_t begin_of(const std::string& name) const;
  bool is_part(const std::string& name) const { return begin_of_.contains(name); }

  LoadReport report;

 private:
  void take(const std::string& name);
  /// Finds the places of a stack of experts' matrices, if `name` is one; returns whether it is.
  bool take_stack(const std::string& name);
  bool is_buffer(const std::string& name) const;
  bool is_alias(const std::string& name) const;
  void match_alias(const models::WeightLayout::Alias& alias);
  void match_head();
  /// The name that a file's tensor has in the model.
  std::string new_name(const std::string& name) const;
  bool same(const std::string& a, const std::string& b) const;
  bool readable(const std::string& name) const;
  void check(const std::string& name, const parallel::StateTensor& tensor);
  void complain();

  const formats::SafetensorsFolder& file_;
  const models::WeightLayout& layout_;
  std::map<std::string, const parallel::StateTensor*> places_;
  std::map<std::string, std::string> source_of_;  // [place] name in the file
  std::map<std::string, int64_t> begin_of_;       // [place] element of it, of parts of a stack
  std::string head_;                              // its name in the file; "" = it has none
  std::vector<std::string> left_over_, wrong_;
};

}  // namespace convoy::checkpoint
