#pragma once

#include <ATen/ATen.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/base/protobuf.h"

namespace convoy::testing_onnx {

/// The operators of ONNX that convoy's graphs have, computed by ATen as the standard defines them.
class OnnxModel {
 public:
  explicit OnnxModel(const std::filesystem::path& file) : where_(file.string()) {
    const auto content = read_file(file);
    each(content, [&](int field, std::string_view graph, int64_t) {
      if (field != 7) return;
      each(graph, [&](int part, std::string_view bytes, int64_t) {
        if (part == 1) nodes_.push_back(node(bytes));
        if (part == 5) take_tensor(bytes);
      });
    });
  }

  at::Tensor run(const std::string& input, const at::Tensor& value, const std::string& output) {
    auto values = tensors_;
    values[input] = value;
    for (const auto& one : nodes_) compute(one, values);
    return values.at(output);
  }

 private:
  using Values = std::map<std::string, at::Tensor>;
  struct Node {
    std::string op;
    std::vector<std::string> inputs, outputs;
    std::map<std::string, std::vector<int64_t>> whole;
    std::map<std::string, float> real;
    std::map<std::string, std::string> text;
  };

  template <class Use>
  void each(std::string_view bytes, const Use& use) const {
    protobuf::Reader reader(bytes, where_, "ONNX model");
    while (reader.next()) {
      use(static_cast<int>(reader.field()), reader.content(), reader.number());
    }
  }

  Node node(std::string_view bytes) const {
    Node out;
    each(bytes, [&](int field, std::string_view content, int64_t) {
      if (field == 1) out.inputs.emplace_back(content);
      if (field == 2) out.outputs.emplace_back(content);
      if (field == 4) out.op = content;
      if (field != 5) return;
      std::string name;
      each(content, [&](int part, std::string_view value, int64_t number) {
        if (part == 1) name = value;
        if (part == 3 || part == 8) out.whole[name].push_back(number);
        if (part == 4) out.text[name] = value;
        if (part == 2) std::memcpy(&out.real[name], value.data(), sizeof(float));
      });
    });
    return out;
  }

  void take_tensor(std::string_view bytes) {
    std::vector<int64_t> shape;
    int64_t type = 0;
    std::string name;
    std::string_view raw;
    each(bytes, [&](int field, std::string_view content, int64_t number) {
      if (field == 1) shape.push_back(number);
      if (field == 2) type = number;
      if (field == 8) name = content;
      if (field == 9) raw = content;
    });
    auto tensor = at::empty(shape, type == 7 ? at::kLong : at::kFloat);
    if (tensor.nbytes() != raw.size()) throw std::runtime_error(name + " has another size");
    std::memcpy(tensor.mutable_data_ptr(), raw.data(), raw.size());
    if (!tensors_.emplace(name, tensor).second) throw std::runtime_error(name + " is there twice");
  }

  static void compute(const Node& node, Values& values) {
    const auto& op = node.op;
    std::vector<at::Tensor> in;
    for (const auto& name : node.inputs) in.push_back(values.at(name));
    const auto list = [&op](const at::Tensor& t) {
      if (t.dim() != 1) throw std::runtime_error(op + " of no list");
      const auto flat = t.contiguous();
      const auto* first = flat.const_data_ptr<int64_t>();
      return std::vector<int64_t>(first, first + flat.numel());
    };
    if (op == "Split") {
      const auto parts = in[0].split_with_sizes(list(in[1]), node.whole.at("axis").at(0));
      for (size_t i = 0; i < parts.size(); ++i) values[node.outputs.at(i)] = parts[i];
      return;
    }
    at::Tensor out;
    if (op == "ReduceSum") out = in[0].sum(list(in[1]), /*keepdim=*/true);
    if (op == "Cast") out = in[0].to(node.whole.at("to").at(0) == 7 ? at::kLong : at::kFloat);
    if (op == "Greater") out = in[0] > in[1];
    if (op == "GreaterOrEqual") out = in[0] >= in[1];
    if (op == "LessOrEqual") out = in[0] <= in[1];
    if (op == "Equal") out = in[0] == in[1];
    if (op == "Max") out = at::maximum(in[0], in[1]);
    if (op == "Add") out = in[0] + in[1];
    if (op == "Sub") out = in[0] - in[1];
    if (op == "Mul") out = in[0] * in[1];
    if (op == "Where") out = at::where(in[0], in[1], in[2]);
    if (op == "Concat") out = at::cat(in, node.whole.at("axis").at(0));
    if (op == "Shape") out = at::tensor(in[0].sizes().vec(), at::kLong);
    if (op == "Range") {
      if (in[1].dim() != 0) throw std::runtime_error("Range to no number");
      out = at::arange(in[0].item<int64_t>(), in[1].item<int64_t>(), in[2].item<int64_t>(),
                       at::TensorOptions(at::kLong));
    }
    if (op == "Gather") {  // along the first dimension
      auto shape = in[1].sizes().vec();
      for (int64_t dim = 1; dim < in[0].dim(); ++dim) shape.push_back(in[0].size(dim));
      out = in[0].index_select(0, in[1].reshape({-1})).reshape(shape);
    }
    if (op == "GatherND") {  // batch_dims = 1, one index
      const auto index = in[1].unsqueeze(2).expand({-1, 1, in[0].size(2)});
      out = in[0].gather(1, index).squeeze(1);
    }
    if (op == "Unsqueeze") {
      out = in[0];
      for (const int64_t axis : list(in[1])) out = out.unsqueeze(axis);
    }
    if (op == "Reshape") {
      auto shape = list(in[1]);
      for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 0) shape[i] = in[0].size(static_cast<int64_t>(i));
      }
      out = in[0].reshape(shape);
    }
    if (op == "Transpose") out = in[0].permute(node.whole.at("perm"));
    if (op == "MatMul") out = at::matmul(in[0], in[1]);
    if (op == "Softmax") out = at::softmax(in[0], node.whole.at("axis").at(0));
    if (op == "Relu") out = at::relu(in[0]);
    if (op == "Tanh") out = at::tanh(in[0]);
    if (op == "Sigmoid") out = at::sigmoid(in[0]);
    if (op == "Gelu") out = at::gelu(in[0], node.text.contains("approximate") ? "tanh" : "none");
    if (op == "LayerNormalization") {
      out = at::layer_norm(in[0], {in[0].size(-1)}, in[1], in[2], node.real.at("epsilon"));
    }
    if (op == "Gemm") out = at::matmul(in[0], in[1].t()) * node.real.at("alpha") + in[2];
    if (!out.defined()) throw std::runtime_error("no operator " + op);
    values[node.outputs.at(0)] = out;
  }

  std::string where_;
  std::vector<Node> nodes_;
  Values tensors_;
};

}  // namespace convoy::testing_onnx
