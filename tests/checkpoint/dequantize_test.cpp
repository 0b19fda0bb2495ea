#include "convoy/checkpoint/dequantize.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/matching.h"
#include "convoy/checkpoint/mxfp4.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Mxfp4, HoldsSignExponentAndMantissaInFourBits) {
  // All sixteen numbers, twice, times 1 and times 2^-3 and 2^100.
  auto blocks = at::empty({3, 16}, at::kByte);
  for (int64_t i = 0; i < 16; ++i) {
    const auto low = (2 * i) % 16, high = (2 * i + 1) % 16;
    blocks.select(1, i).fill_(low | high << 4);
  }
  const auto scales = at::tensor({127, 124, 227}, at::kByte);
  const auto found = from_mxfp4(blocks, scales).to(at::kDouble);
  ASSERT_EQ(found.sizes(), (std::vector<int64_t>{96}));
  for (int64_t i = 0; i < 96; ++i) {
    const auto bits = i % 16;
    const auto exponent = bits >> 1 & 3, mantissa = bits & 1;
    const double size = exponent == 0
                            ? mantissa / 2.0
                            : std::ldexp(1 + mantissa / 2.0, static_cast<int>(exponent) - 1);
    const int power = std::vector<int>{0, -3, 100}[static_cast<size_t>(i / 32)];
    const double expected = std::ldexp((bits & 8) != 0 ? -size : size, power);
    EXPECT_EQ(found[i].item<double>(), expected) << i;
  }
}

class Dequantize : public testing::Test {
 protected:
  void write(const at::Tensor& blocks, const at::Tensor& scales,
             const std::string& config = R"({"model_type": "gpt_oss",
               "quantization_config": {"quant_method": "mxfp4"}, "hidden_size": 64})") {
    fs::create_directories(folder_ / "from");
    const auto view = [](const char* name, const char* dtype, const at::Tensor& x) {
      return formats::TensorView{name, dtype, x.sizes().vec(), x.const_data_ptr(), x.nbytes()};
    };
    formats::write_safetensors(folder_ / "from/model.safetensors",
                               std::vector{view("experts.down_proj_blocks", "U8", blocks),
                                           view("experts.down_proj_scales", "U8", scales),
                                           view("norm.weight", "F32", norm_)});
    write_file(folder_ / "from/config.json", config);
    write_file(folder_ / "from/tokenizer.json", "{}");
  }

  std::string error() {
    try {
      dequantize(folder_ / "from", folder_ / "to", 1 << 30);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  ~Dequantize() override { fs::remove_all(folder_); }

  const fs::path folder_ = unique_folder("convoy-dequantize");
  at::Tensor norm_ = at::randn({5});
  at::Tensor blocks_ = at::randint(256, {2, 3, 4, 16}, at::kByte);
  at::Tensor scales_ = at::randint(120, 130, {2, 3, 4}, at::kByte);
};

TEST_F(Dequantize, WritesExpertsAsMatricesOfRowsTimesColumns) {
  write(blocks_, scales_);
  const auto out = dequantize(folder_ / "from", folder_ / "to", 1 << 30);
  EXPECT_EQ(out.num_tensors, 2);
  const formats::SafetensorsFolder files(folder_ / "to");
  const auto experts = mapped(files, "experts.down_proj");
  EXPECT_EQ(experts.scalar_type(), at::kBFloat16);
  ASSERT_EQ(experts.sizes(), (std::vector<int64_t>{2, 4 * 32, 3}));
  EXPECT_TRUE(at::equal(experts, from_mxfp4(blocks_, scales_).transpose(1, 2)));
  EXPECT_TRUE(at::equal(mapped(files, "norm.weight"), norm_));
  const auto config = parse_json(read_file(folder_ / "to/config.json"), "config.json");
  EXPECT_FALSE(config.contains("quantization_config"));
  EXPECT_EQ(config.at("hidden_size"), 64);
  EXPECT_TRUE(fs::exists(folder_ / "to/tokenizer.json"));
}

TEST_F(Dequantize, RefusesWhatIsNotMxfp4) {
  write(blocks_, scales_.narrow(2, 0, 3).contiguous());
  EXPECT_THAT(error(), HasSubstr("down_proj_blocks is U8 [2, 3, 4, 16] without scales that fit"));
  formats::write_safetensors(
      folder_ / "from/model.safetensors",
      std::vector{formats::TensorView{"experts.down_proj_scales", "U8", scales_.sizes().vec(),
                                      scales_.const_data_ptr(), scales_.nbytes()}});
  EXPECT_THAT(error(), HasSubstr("experts.down_proj_scales has no blocks"));
  write(blocks_, scales_, R"({"model_type": "gpt_oss"})");
  EXPECT_THAT(error(), HasSubstr("there is nothing to dequantize"));
  EXPECT_FALSE(fs::exists(folder_ / "to"));
}

}  // namespace
}  // namespace convoy::checkpoint
