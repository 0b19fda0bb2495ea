#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>

#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/module_block.h"

// A model that is no family's: blocks as a user writes them, modules of torch among them. Several
// tensors go from block to block, with gradients and without.
namespace convoy::parallel {

constexpr int64_t kOwnIds = 50, kOwnWidth = 16;

/// Ids [B, T] to states, and half of them for the head.
class OwnInput : public nn::Block {
 public:
  OwnInput() : Block("own.input") {
    table_ = declare_matrix("own.input.table", {kOwnIds, kOwnWidth}, nn::Init::normal(0.5));
  }
  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    auto out = in;
    out["states"] = nn::embedding(in.at("input_ids"), table_, false);
    out["skipped"] = out["states"] * 0.5;
    return out;
  }

 private:
  nn::ParamPtr table_;
};

class OwnLayer : public nn::Block {
 public:
  explicit OwnLayer(const std::string& name) : Block(name) {
    norm_ = declare_norm(name + ".norm", kOwnWidth);
    dense_ = declare_dense(name + ".dense", kOwnWidth, kOwnWidth, 0.3);
  }
  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    auto out = in;
    const auto normed = nn::layer_norm(in.at("states"), norm_, 1e-5);
    const auto added = nn::linear(normed.to(context.compute_dtype), dense_).tanh();
    out["states"] = in.at("states") + nn::dropout(added, 0.2, context, 0).to(at::kFloat);
    return out;
  }

 private:
  nn::NormParams norm_;
  nn::DenseParams dense_;
};

/// A module of torch, with values that no generator gives: ranks are threads here.
inline nn::BlockPtr own_module(const std::string& name) {
  struct Layer : torch::nn::Module {
    explicit Layer(const std::string& of)
        : linear(register_module(of, torch::nn::Linear(kOwnWidth, kOwnWidth))) {}
    torch::nn::Linear linear;
  };
  const auto layer = std::make_shared<Layer>(name);
  const at::NoGradGuard no_grad;
  for (auto& weight : layer->parameters()) {
    weight.copy_(at::arange(weight.numel()).mul(0.7).sin().mul(0.3).view_as(weight));
  }
  const auto run = [layer](const nn::Bundle& in, const nn::Context&) {
    auto out = in;
    out["states"] = in.at("states") + layer->linear->forward(in.at("states")).tanh().to(at::kFloat);
    return out;
  };
  return std::make_shared<nn::ModuleBlock>(layer, run, name);
}

class OwnHead : public nn::Block {
 public:
  OwnHead() : Block("own.head") {
    dense_ = declare_dense("own.head.dense", kOwnWidth, kOwnIds, 0.3);
  }
  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto states = (in.at("states") + in.at("skipped")).to(context.compute_dtype);
    const auto scores = nn::linear(states, dense_).to(at::kFloat).flatten(0, 1);
    const auto targets = in.at("input_ids").roll(1, 1).flatten();
    return {{"loss", at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum)},
            {"count", at::full({}, targets.numel(), at::kLong)}};
  }

 private:
  nn::DenseParams dense_;
};

/// So many layers between input and head, every other one a module of torch.
inline nn::BlockList own_blocks(int64_t layers) {
  nn::BlockList out{std::make_shared<OwnInput>()};
  for (int64_t i = 0; i < layers; ++i) {
    const auto name = fmt::format("own{}", i);
    out.push_back(i % 2 == 0 ? std::make_shared<OwnLayer>(name) : own_module(name));
  }
  out.push_back(std::make_shared<OwnHead>());
  return out;
}

}  // namespace convoy::parallel
