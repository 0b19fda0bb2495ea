#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string_view>

#include "convoy/nn/declare.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/parallel/run/pass.h"
#include "convoy/parallel/run_plan/run_plan.h"
#include "tests/models/testing.h"

// The two halves of a backward.
namespace convoy::parallel {
namespace {

std::atomic<int> products{0};

std::unique_ptr<at::ObserverContext> count_products(const at::RecordFunction& call) {
  products += std::string_view(call.name()) == "aten::mm";
  return nullptr;
}

/// Two linear layers; the matrix of the first may be another block's, too.
class Layers : public nn::Block {
 public:
  Layers(const std::string& name, bool last, const nn::ParamPtr& lent = nullptr)
      : Block(name),
        last_(last),
        first_(lent ? tie(lent) : declare_matrix(name + ".first", {4, 4}, nn::Init::ones())),
        second_(declare_matrix(name + ".second", {4, 4}, nn::Init::ones())),
        bias_(declare_vector(name + ".bias", 4)) {}

  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    const auto y =
        nn::linear(nn::linear(in.at("x"), first_, nullptr, false), second_, bias_, false);
    if (!last_) return {{"x", y}};
    return {{"loss", y.sum()}, {"count", at::ones({}, at::kLong)}};
  }
  const nn::ParamPtr& first() const { return first_; }

 private:
  bool last_;
  nn::ParamPtr first_, second_, bias_;
};

/// A pass over blocks with what it takes.
struct Half {
  explicit Half(nn::BlockList all)
      : blocks(std::move(all)),
        flat(blocks, parallel::layout_of(nn::declare(blocks), {}), {}),
        gradients(flat, comm::Groups(comm::Group()), true),
        program(parallel::data_parallel_program(flat.layout(), {})) {
    flat.bind();
    flat.fill(0.5);
    gradients.begin_step();
  }

  /// What a call adds to the number of products.
  template <typename Call>
  int products_of(const Call& call) {
    const int before = products;
    const auto counter = at::addGlobalCallback(
        at::RecordFunctionCallback(count_products).scopes({at::RecordScope::FUNCTION}));
    call();
    at::removeCallback(counter);
    return products - before;
  }
  std::vector<std::string> written(size_t block) const {
    std::vector<std::string> out;
    for (const auto& param : blocks[block]->params()) {
      if (param->grad_written()) out.push_back(param->spec().name);
    }
    return out;
  }

  nn::BlockList blocks;
  FlatBuffers flat;
  Gradients gradients;
  parallel::Program program;
  StepInput step;
};

using Names = std::vector<std::string>;

TEST(Halves, ProductsOfWeightsComeInTheSecond) {
  Half it({std::make_shared<Layers>("a", false), std::make_shared<Layers>("b", true)});
  const std::vector<MicroBatch> batches{{{{"x", at::ones({3, 4})}}, at::arange(3)}};
  Pass pass(it.blocks, it.flat.layout(), it.gradients, {batches, it.step}, it.program);
  pass.load(0);
  for (const int64_t block : {0, 1}) pass.forward(block, 0);
  for (const int64_t block : {1, 0}) {
    const auto b = static_cast<size_t>(block);
    const std::string name = block == 0 ? "a" : "b";
    // One for each layer's input, but for the batch.
    EXPECT_EQ(it.products_of([&] { pass.backward_input(block, 0); }), block == 0 ? 1 : 2);
    EXPECT_EQ(it.written(b), Names{name + ".bias"});
    // One for each matrix.
    EXPECT_EQ(it.products_of([&] { pass.backward_weight(block, 0); }), 2);
    EXPECT_EQ(it.written(b), (Names{name + ".first", name + ".second", name + ".bias"}));
  }
}

TEST(Halves, SharedWeightsGetTheirGradientInTheFirst) {
  const auto a = std::make_shared<Layers>("a", false);
  Half it({a, std::make_shared<Layers>("b", true, a->first())});
  const std::vector<MicroBatch> batches{{{{"x", at::ones({3, 4})}}, at::arange(3)}};
  Pass pass(it.blocks, it.flat.layout(), it.gradients, {batches, it.step}, it.program);
  pass.load(0);
  for (const int64_t block : {0, 1}) pass.forward(block, 0);
  EXPECT_EQ(it.products_of([&] { pass.backward_input(1, 0); }), 3);
  EXPECT_EQ(it.written(1), (Names{"a.first", "b.bias"}));
  EXPECT_EQ(it.products_of([&] { pass.backward_weight(1, 0); }), 1);
  EXPECT_EQ(it.written(1), (Names{"a.first", "b.second", "b.bias"}));
}

// Another micro-batch may come between the halves of one.
TEST(Halves, GiveTheBitsOfAWholeBackward) {
  for (const bool tied : {false, true}) {
    auto config = models::small_llama({});
    config.tie_word_embeddings = tied;
    std::vector<MicroBatch> batches;
    for (int64_t m = 0; m < 3; ++m) {
      const auto ids = at::arange(24, at::kLong).view({2, 12}).mul(7 + m).remainder(50);
      batches.push_back({{{"input_ids", ids}}, at::arange(2 * m, 2 * m + 2)});
    }
    const auto gradients = [&](bool in_halves) {
      Half it(config.make_blocks());
      for (const auto& param : nn::params_of(it.blocks)) {
        nn::initialize(param->spec(), 1, param->value());
      }
      Pass pass(it.blocks, it.flat.layout(), it.gradients, {batches, it.step}, it.program);
      const auto last = static_cast<int64_t>(it.blocks.size()) - 1;
      const auto accumulate = [&](int64_t m) {
        for (size_t u = 0; u < it.flat.units().size(); ++u) {
          it.gradients.accumulate(static_cast<int64_t>(u), m);
        }
      };
      for (int64_t m = 0; m < 3; ++m) {
        pass.load(m);
        for (int64_t b = 0; b <= last; ++b) pass.forward(b, m);
        for (int64_t b = last; b >= 0; --b) {
          in_halves ? pass.backward_input(b, m) : pass.backward(b, m);
        }
        if (!in_halves) accumulate(m);
      }
      for (int64_t m = 0; in_halves && m < 3; ++m) {
        for (int64_t b = last; b >= 0; --b) pass.backward_weight(b, m);
        accumulate(m);
      }
      std::vector<at::Tensor> out;
      for (int64_t b = 0; b < it.flat.layout().num_trained_buckets(); ++b) {
        out.push_back(it.flat.grads(b, it.flat.layout().buckets()[static_cast<size_t>(b)].all));
      }
      return at::cat(out).clone();
    };
    EXPECT_TRUE(at::equal(gradients(true), gradients(false))) << tied;
  }
}

}  // namespace
}  // namespace convoy::parallel
