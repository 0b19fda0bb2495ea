#include "convoy/formats/onnx.h"

#include <fmt/format.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/protobuf.h"
#include "convoy/base/text.h"

// Field numbers are those of onnx.proto.
namespace convoy::formats {

namespace {

using protobuf::put_bytes;

constexpr int64_t kIrVersion = 9, kOperators = 20;

void put_number(std::string& out, int field, int64_t value) {
  protobuf::put_key(out, field, protobuf::kVarint);
  protobuf::put_varint(out, static_cast<uint64_t>(value));
}

std::string attribute_proto(const std::string& name, const OnnxGraph::Attribute& value) {
  enum Kind { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };
  std::string out;
  put_bytes(out, 1, name);
  if (const auto* number = std::get_if<int64_t>(&value)) {
    put_number(out, 3, *number);
    put_number(out, 20, kInt);
  } else if (const auto* real = std::get_if<double>(&value)) {
    protobuf::put_fixed(out, 2, static_cast<float>(*real));
    put_number(out, 20, kFloat);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    put_bytes(out, 4, *text);
    put_number(out, 20, kString);
  } else {
    for (const int64_t one : std::get<std::vector<int64_t>>(value)) put_number(out, 8, one);
    put_number(out, 20, kInts);
  }
  return out;
}

std::string value_proto(const std::string& name, OnnxGraph::Type type,
                        const std::vector<OnnxGraph::Dim>& dims) {
  std::string shape;
  for (const auto& dim : dims) {
    std::string one;
    if (const auto* length = std::get_if<int64_t>(&dim)) {
      put_number(one, 1, *length);
    } else {
      put_bytes(one, 2, std::get<std::string>(dim));
    }
    put_bytes(shape, 1, one);
  }
  std::string tensor, kind, out;
  put_number(tensor, 1, static_cast<int64_t>(type));
  put_bytes(tensor, 2, shape);
  put_bytes(kind, 1, tensor);
  put_bytes(out, 1, name);
  put_bytes(out, 2, kind);
  return out;
}

}  // namespace

std::string OnnxGraph::fresh(const std::string& op) {
  return fmt::format("{}_{}", op, ++num_names_);
}

std::string OnnxGraph::input(const std::string& name, Type type, const std::vector<Dim>& dims) {
  put_bytes(graph_, 11, value_proto(name, type, dims));
  return name;
}

void OnnxGraph::output(const std::string& name, Type type, const std::vector<Dim>& dims) {
  put_bytes(graph_, 12, value_proto(name, type, dims));
}

std::string OnnxGraph::node(const std::string& op, const std::vector<std::string>& inputs,
                            const Attributes& attributes, const std::string& name) {
  std::string out;
  const auto result = name.empty() ? fresh(op) : name;
  for (const auto& input : inputs) put_bytes(out, 1, input);
  put_bytes(out, 2, result);
  put_bytes(out, 4, op);
  for (const auto& [key, value] : attributes) put_bytes(out, 5, attribute_proto(key, value));
  put_bytes(graph_, 1, out);
  return result;
}

std::vector<std::string> OnnxGraph::nodes(const std::string& op,
                                          const std::vector<std::string>& inputs,
                                          size_t num_outputs, const Attributes& attributes) {
  std::string out;
  std::vector<std::string> results;
  for (const auto& input : inputs) put_bytes(out, 1, input);
  for (size_t i = 0; i < num_outputs; ++i) {
    results.push_back(fresh(op));
    put_bytes(out, 2, results.back());
  }
  put_bytes(out, 4, op);
  for (const auto& [key, value] : attributes) put_bytes(out, 5, attribute_proto(key, value));
  put_bytes(graph_, 1, out);
  return results;
}

std::string OnnxGraph::tensor(const std::string& name, const std::vector<int64_t>& shape, Type type,
                              const void* data, size_t bytes) {
  std::string out;
  for (const int64_t length : shape) put_number(out, 1, length);
  put_number(out, 2, static_cast<int64_t>(type));
  put_bytes(out, 8, name);
  put_bytes(out, 9, {static_cast<const char*>(data), bytes});
  put_bytes(graph_, 5, out);
  return name;
}

std::string OnnxGraph::weights(const std::string& name, const std::vector<int64_t>& shape,
                               std::span<const float> values) {
  return tensor(name, shape, Type::Float, values.data(), values.size_bytes());
}

std::string OnnxGraph::list(const std::vector<int64_t>& values) {
  return tensor(fresh("list"), {std::ssize(values)}, Type::Int64, values.data(),
                values.size() * sizeof(int64_t));
}

std::string OnnxGraph::number(int64_t value) {
  return tensor(fresh("number"), {}, Type::Int64, &value, sizeof value);
}

std::string OnnxGraph::real(float value) {
  return tensor(fresh("real"), {}, Type::Float, &value, sizeof value);
}

void OnnxGraph::write(const std::filesystem::path& file) const {
  constexpr size_t kMost = (size_t{1} << 31) - (1 << 20);  // a message of Protocol Buffers
  std::string graph = graph_;
  put_bytes(graph, 2, "convoy");
  if (graph.size() > kMost) {
    fail<FileError>("formats",
                    "{} would have {}, and ONNX's files have at most 2 GB; try convoy export "
                    "vectors, and an index",
                    file.string(), human_bytes(graph.size()));
  }
  std::string operators, out;
  put_bytes(operators, 1, "");
  put_number(operators, 2, kOperators);
  put_number(out, 1, kIrVersion);
  put_bytes(out, 2, "convoy");
  put_bytes(out, 7, graph);
  put_bytes(out, 8, operators);
  for (const auto& [key, value] : notes_) {
    std::string entry;
    put_bytes(entry, 1, key);
    put_bytes(entry, 2, value);
    put_bytes(out, 14, entry);
  }
  write_file(file, out);
}

}  // namespace convoy::formats
