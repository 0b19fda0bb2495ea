#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace convoy::formats {

/// Graph of operators in the format of ONNX (operator set 20). Values are known by their names; a
/// function that adds one returns its name.
class OnnxGraph {
 public:
  enum class Type { Float = 1, Int64 = 7 };
  using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
  using Attributes = std::vector<std::pair<std::string, Attribute>>;
  /// Length of a dimension, or a name for one that differs from call to call.
  using Dim = std::variant<int64_t, std::string>;

  std::string input(const std::string& name, Type type, const std::vector<Dim>& dims);
  /// Makes a value the result of the graph, by the name that node() gave it.
  void output(const std::string& name, Type type, const std::vector<Dim>& dims);
  /// Adds an operator; its result is called `name`, or by the operator and a number.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {}, const std::string& name = "");
  /// Adds an operator with several results.
  std::vector<std::string> nodes(const std::string& op, const std::vector<std::string>& inputs,
                                 size_t num_outputs, const Attributes& attributes = {});
  std::string weights(const std::string& name, const std::vector<int64_t>& shape,
                      std::span<const float> values);
  /// Constants: a list of whole numbers, one, and a fraction.
  std::string list(const std::vector<int64_t>& values);
  std::string number(int64_t value);
  std::string real(float value);
  void note(const std::string& key, const std::string& value) { notes_[key] = value; }

  /// Writes the model. Throws FileError; also where it is larger than the 2 GB of the format.
  void write(const std::filesystem::path& file) const;

 private:
  std::string fresh(const std::string& op);
  std::string tensor(const std::string& name, const std::vector<int64_t>& shape, Type type,
                     const void* data, size_t bytes);

  std::string graph_;  // fields of the graph
  std::map<std::string, std::string> notes_;
  int64_t num_names_ = 0;
};

}  // namespace convoy::formats
