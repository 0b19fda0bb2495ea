#pragma once

namespace convoy::job {

/// Makes the operations of GPUs give the same bits in every run, at some cost: none that add in no
/// fixed order, one workspace for cuBLAS, attention as plain products. To be called before the
/// first product. What has no such form throws. The CPU always gives the same bits.
void make_gpus_deterministic();

/// Guard: while it lives, GPUs compute fp32 products in TF32 (10 bits of mantissa) if `wanted`.
class Tf32 {
 public:
  explicit Tf32(bool wanted);
  ~Tf32();
  Tf32(const Tf32&) = delete;
  Tf32& operator=(const Tf32&) = delete;

 private:
  bool before_;
};

}  // namespace convoy::job
