#include "convoy/checkpoint/weights.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/parallel/run/replica.h"
#include "tests/models/testing.h"

namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;
using parallel::Replica;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

models::Gpt2Config tiny(bool tied = true) {
  auto config = models::small_gpt2({.ids = 13, .width = 8, .length = 6});
  config.tie_word_embeddings = tied;
  return config;
}

/// A replica that has started.
struct Started : Replica {
  Started(const models::Gpt2Config& config, parallel::ReplicaOptions options)
      : Replica(config.make_blocks(), comm::Group(), options) {
    start();
  }
};

Started model(const models::Gpt2Config& config, uint64_t seed) {
  parallel::ReplicaOptions options;
  options.seed = seed;
  return {config, options};
}

LoadReport load_weights(const fs::path& path, Replica& into, const models::WeightLayout& layout) {
  auto report = checkpoint::load_weights(path, into.weights(), into.world(), layout);
  into.draw({report.drawn.begin(), report.drawn.end()});
  return report;
}

void save_weights(const fs::path& folder, Replica& from, int64_t limit) {
  checkpoint::save_weights(folder, from.weights(), from.world(), limit);
}

/// Tensors by name, as a person's file may hold them.
using Tensors = std::map<std::string, at::Tensor>;

class Weights : public testing::Test {
 protected:
  ~Weights() override { fs::remove_all(folder_); }

  static Tensors of(Replica& from) {
    Tensors out;
    for (const auto& slot : from.flat().all_slots()) {
      const auto& name = slot.param->spec().name;
      out[name] = from.flat().value_of(name).clone();
    }
    return out;
  }

  void write(const Tensors& tensors, const std::string& file = "model.safetensors") const {
    std::vector<formats::TensorView> views;
    for (const auto& [name, tensor] : tensors) {
      const auto dtype = tensor.scalar_type() == at::kHalf       ? "F16"
                         : tensor.scalar_type() == at::kBFloat16 ? "BF16"
                         : tensor.scalar_type() == at::kLong     ? "I64"
                                                                 : "F32";
      views.push_back({name, dtype, tensor.sizes().vec(), tensor.data_ptr(), tensor.nbytes()});
    }
    formats::write_safetensors(folder_ / file, views);
  }

  void write_index(const std::map<std::string, std::string>& files) const {
    write_file(folder_ / formats::kWeightsIndex, Json{{"weight_map", files}}.dump());
  }

  std::string error_of(const models::Gpt2Config& config = tiny()) const {
    auto into = model(config, 9);
    const auto before = into.flat().masters().clone();
    try {
      load_weights(folder_, into, config.layout());
    } catch (const FileError& error) {
      EXPECT_TRUE(at::equal(into.flat().masters(), before)) << "half of it was read";
      return error.what();
    }
    return "nothing was thrown";
  }

  size_t num_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const fs::path folder_ = unique_folder("convoy-weights-test");
};

TEST_F(Weights, ComeBackFromOneFileAndFromShards) {
  auto from = model(tiny(), 1);
  const int64_t plenty = formats::shard_bytes(formats::kMaxShardSize);
  for (int64_t limit : {int64_t{1000}, int64_t{1}, plenty}) {  // stale files go
    save_weights(folder_, from, limit);
    EXPECT_EQ(fs::exists(folder_ / "model.safetensors"), limit == plenty);
    auto into = model(tiny(), 2);
    ASSERT_FALSE(at::equal(into.flat().masters(), from.flat().masters()));
    const auto report = load_weights(folder_, into, tiny().layout());
    EXPECT_TRUE(at::equal(into.flat().masters(), from.flat().masters()));
    EXPECT_THAT(report.drawn, IsEmpty());
  }
  EXPECT_EQ(num_files(), 1u);
}

TEST_F(Weights, ShardsAreNoLargerThanAllowedAndListedInTheIndex) {
  auto from = model(tiny(), 1);
  save_weights(folder_, from, 2000);
  const auto index =
      parse_json(read_file(folder_ / formats::kWeightsIndex), formats::kWeightsIndex);
  EXPECT_EQ(index["weight_map"].size(), from.flat().all_slots().size());
  EXPECT_EQ(index["metadata"]["total_size"], from.flat().num_parameters() * 4);
  EXPECT_GT(num_files(), 3u);
  for (const auto& [name, file] : index["weight_map"].items()) {
    formats::SafetensorsFile shard(folder_ / file.get<std::string>());
    size_t bytes = 0;
    for (const auto& [tensor, entry] : shard.entries()) bytes += entry.end - entry.begin;
    EXPECT_LE(bytes, 2000u);
    EXPECT_EQ(shard.metadata().at("format"), "pt");
    EXPECT_TRUE(shard.entries().contains(name));
  }
}

TEST_F(Weights, NamesMayLackThePrefixAndBuffersArePassedOver) {
  auto from = model(tiny(), 1);
  Tensors bare;
  for (const auto& [name, tensor] : of(from)) bare[name.substr(12)] = tensor;
  bare["h.0.attn.bias"] = at::ones({1, 1, 6, 6}).tril();
  bare["h.1.attn.masked_bias"] = at::zeros({});
  write(bare);
  auto into = model(tiny(), 2);
  const auto report = load_weights(folder_, into, tiny().layout());
  EXPECT_TRUE(at::equal(into.flat().masters(), from.flat().masters()));
  EXPECT_THAT(report.skipped, UnorderedElementsAre("h.0.attn.bias", "h.1.attn.masked_bias"));
  bare["transformer.wte.weight"] = bare["wte.weight"];
  write(bare);
  EXPECT_THAT(error_of(),
              HasSubstr("transformer.wte.weight is there as transformer.wte.weight too"));
}

TEST_F(Weights, HalvesAreRead) {
  auto from = model(tiny(), 1);
  for (auto dtype : {at::kHalf, at::kBFloat16}) {
    auto tensors = of(from);
    for (auto& [name, tensor] : tensors) tensor = tensor.to(dtype);
    write(tensors);
    auto into = model(tiny(), 2);
    load_weights(folder_, into, tiny().layout());
    EXPECT_TRUE(at::equal(into.flat().masters(), from.flat().masters().to(dtype).to(at::kFloat)));
  }
}

TEST_F(Weights, ATiedHeadMustAgree) {
  auto from = model(tiny(), 1);
  auto tensors = of(from);
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone();
  write(tensors);
  EXPECT_EQ(error_of(), "nothing was thrown");
  tensors["lm_head.weight"][3][2] += 1;
  write(tensors);
  EXPECT_THAT(error_of(),
              HasSubstr("lm_head.weight differs from transformer.wte.weight, which it "
                        "is tied to (try tie_word_embeddings = false in its config.json)"));
  tensors.erase("transformer.wte.weight");  // some tools keep the other of the two names
  write(tensors);
  auto into = model(tiny(), 2);
  load_weights(folder_, into, tiny().layout());
  EXPECT_TRUE(at::equal(into.flat().value_of("transformer.wte.weight"), tensors["lm_head.weight"]));
}

TEST_F(Weights, AMissingHeadIsDrawnAndSaidSo) {
  auto body = model(tiny(true), 1);
  write(of(body));
  parallel::ReplicaOptions options;
  options.seed = 5;
  LoadReport report;
  options.fill = [&](Replica& replica) {
    report = load_weights(folder_, replica, tiny(false).layout());
  };
  Started filled(tiny(false), options);
  EXPECT_THAT(report.drawn, ElementsAre("lm_head.weight"));
  auto drawn = model(tiny(false), 5);
  const auto head = "lm_head.weight", table = "transformer.wte.weight";
  EXPECT_TRUE(at::equal(filled.flat().value_of(head), drawn.flat().value_of(head)));
  EXPECT_TRUE(at::equal(filled.flat().value_of(table), body.flat().value_of(table)));
}

TEST_F(Weights, EverythingWrongIsListedAtOnceWithTheNearestNames) {
  auto from = model(tiny(), 1);
  auto tensors = of(from);
  tensors["transformer.h.0.ln_1.wieght"] = tensors["transformer.h.0.ln_1.weight"];
  tensors.erase("transformer.h.0.ln_1.weight");
  tensors["transformer.wpe.weight"] = at::zeros({7, 8});
  tensors["transformer.ln_f.bias"] = at::zeros({8}, at::kLong);
  write(tensors);
  const auto said = error_of();
  EXPECT_THAT(said, HasSubstr("transformer.h.0.ln_1.weight is missing, did you mean "
                              "'transformer.h.0.ln_1.wieght'"));
  EXPECT_THAT(said, HasSubstr("ln_1.wieght is not in the model"));
  EXPECT_THAT(said, HasSubstr("transformer.wpe.weight is [7, 8] instead of [6, 8]"));
  EXPECT_THAT(said, HasSubstr("transformer.ln_f.bias is I64; expected F32"));
}

TEST_F(Weights, HostileIndexesAreRefused) {
  auto from = model(tiny(), 1);
  auto first = of(from), second = of(from);
  std::map<std::string, std::string> files;
  for (const auto& [name, tensor] : of(from)) {
    const bool early = name < "transformer.h.1";
    (early ? second : first).erase(name);
    files[name] = early ? "a.safetensors" : "b.safetensors";
  }
  write(first, "a.safetensors");
  write(second, "b.safetensors");
  write_index(files);
  EXPECT_EQ(error_of(), "nothing was thrown");

  auto changed = files;
  for (const char* bad : {"../a.safetensors", "/etc/passwd", "x/a.safetensors", "a", ""}) {
    changed["transformer.wpe.weight"] = bad;
    write_index(changed);
    EXPECT_THAT(error_of(), HasSubstr("beside the index")) << bad;
  }
  changed["transformer.wpe.weight"] = "c.safetensors";
  write_index(changed);
  EXPECT_THAT(error_of(), HasSubstr("c.safetensors is missing"));
  changed["transformer.wpe.weight"] = "a.safetensors";
  write_index(changed);
  EXPECT_THAT(error_of(), HasSubstr("is in b.safetensors instead of a.safetensors"));
  changed.erase("transformer.wpe.weight");
  changed["transformer.none"] = "a.safetensors";
  write_index(changed);
  EXPECT_THAT(error_of(), HasSubstr("transformer.wpe.weight is in b.safetensors but not in"));
  EXPECT_THAT(error_of(), HasSubstr("transformer.none is not in a.safetensors"));
  second["transformer.h.0.ln_1.bias"] = at::zeros({8});
  write(second, "b.safetensors");
  write_index(files);
  EXPECT_THAT(error_of(), HasSubstr("is in a.safetensors and in b.safetensors"));
  write_file(folder_ / formats::kWeightsIndex,
             R"({"weight_map": {"x": "a.safetensors", "x": "b"}})");
  EXPECT_THAT(error_of(), HasSubstr("'x' is twice"));
  fs::remove(folder_ / formats::kWeightsIndex);
  EXPECT_THAT(error_of(), HasSubstr("holds no weights"));
}

TEST(Replica, HoldsNoGradientsAndMomentsButToTrain) {
  parallel::ReplicaOptions options;
  options.trains = false;
  options.fill = [](Replica& replica) { replica.flat().masters().fill_(0.25); };
  Started replica(tiny(), options);
  EXPECT_FALSE(replica.flat().grads().defined());
  EXPECT_TRUE(replica.flat().moments().empty());
  EXPECT_EQ(replica.flat().masters().min().item<float>(), 0.25) << "something was drawn";
  const parallel::MicroBatch batch{{{"input_ids", at::ones({2, 3}, at::kLong)}},
                                   at::arange(2, at::kLong)};
  EXPECT_EQ(replica.forward(batch, nn::Mode::Predict).at("logits").sizes(),
            (std::vector<int64_t>{2, 1, 13}));
}

}  // namespace
}  // namespace convoy::checkpoint
