#include "convoy/bench/peaks.h"

#include <gtest/gtest.h>

#include "convoy/bench/device_work.h"

namespace convoy::bench {
namespace {

TEST(Peaks, AreFoundByTheDriversName) {
  EXPECT_EQ(peaks_of("NVIDIA A100-SXM4-80GB")->bf16, 312);
  EXPECT_EQ(peaks_of("NVIDIA A10")->bf16, 125);
  EXPECT_EQ(peaks_of("NVIDIA A10G")->bf16, 70);
  EXPECT_EQ(peaks_of("NVIDIA H100 80GB HBM3")->bf16, 989.5);
  EXPECT_EQ(peaks_of("NVIDIA H100 PCIe")->bf16, 756);
  EXPECT_EQ(peaks_of("NVIDIA H200")->bf16, 989.5);
  EXPECT_EQ(peaks_of("NVIDIA H20")->bf16, 148);
  EXPECT_EQ(peaks_of("NVIDIA L4")->bf16, 121);
  EXPECT_EQ(peaks_of("NVIDIA L40S")->bf16, 362.05);
  EXPECT_EQ(peaks_of("NVIDIA RTX A6000")->fp32, 38.7);
  EXPECT_EQ(peaks_of("NVIDIA GeForce RTX 4090")->tf32, 82.6);
  EXPECT_FALSE(peaks_of("NVIDIA GeForce RTX 4080 SUPER"));
  EXPECT_FALSE(peaks_of("NVIDIA GeForce RTX 3080 Ti"));
  EXPECT_FALSE(peaks_of("NVIDIA GeForce GTX 1080"));
  EXPECT_FALSE(peaks_of(""));
}

TEST(Peaks, AreOfTheTypeOfTheProducts) {
  const auto peaks = *peaks_of("NVIDIA A100-PCIE-40GB");
  options::TrainingArguments arguments;
  EXPECT_EQ(peak_tflops(peaks, arguments), 19.5);
  arguments.tf32 = true;
  EXPECT_EQ(peak_tflops(peaks, arguments), 156);
  EXPECT_EQ(peak_tflops(*peaks_of("Tesla T4"), arguments), 8.1);
  arguments.bf16 = true;
  EXPECT_EQ(peak_tflops(peaks, arguments), 312);
  EXPECT_EQ(peak_tflops(*peaks_of("Tesla T4"), arguments), 0);
}

TEST(DeviceWork, IsWhatCallsOfTheRuntimeAre) {
  DeviceWork work;
  for (const char* name :
       {"cudaLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync", "cudaMemsetAsync",
        "cudaStreamSynchronize", "cudaMemcpy", "cudaEventQuery", "cudaEventRecord", "aten::mm"}) {
    add_call(work, name);
  }
  EXPECT_EQ(work.launches, 5);
  EXPECT_EQ(work.waits, 2);
}

}  // namespace
}  // namespace convoy::bench
