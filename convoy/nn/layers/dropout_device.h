#pragma once

#include <optional>

#include "convoy/nn/block.h"

// The masks of dropout() drawn where they are used. Shapes: B rows.
namespace convoy::nn {

// Philox draws for kDrawLanes counters at a time, laid out so that the compiler can vectorise it;
// each 32-bit word gives two 16-bit uniform numbers.
inline constexpr int kDrawLanes = 16;
inline constexpr int kDrawChunk = kDrawLanes * 8;

/// Stream that a site's mask is drawn from: kept elements become `scale`, others 0.
struct MaskStream {
  uint64_t key;
  uint32_t threshold;  ///< in 65536ths
  float scale;
};

MaskStream mask_stream(double rate, const Context& context, int64_t site);

/// Returns the samples [rows] int64 of `context`, on the host. Throws InternalError where their
/// number differs.
at::Tensor samples_of(const Context& context, int64_t rows);

/// dropout_mask() on a GPU, with the same bits: by a kernel of its own that torch compiles there,
/// or by mask_by_steps(). `samples` [B] int64 on the host.
at::Tensor device_mask(at::IntArrayRef sizes, at::IntArrayRef bounds, at::IntArrayRef origin,
                       const at::Tensor& samples, const MaskStream& stream, at::Device device);

/// Elements that a mask of `sizes` [B, ..., S] drops, on a GPU: [B, ..., S / 128, 8, 16] bool, a
/// view. `samples` as above. Nothing where lines are not whole chunks of 128 positions, or torch
/// cannot compile the kernel.
std::optional<at::Tensor> drops_on_device(at::IntArrayRef sizes, at::IntArrayRef bounds,
                                          at::IntArrayRef origin, const at::Tensor& samples,
                                          const MaskStream& stream, at::Device device);

/// x [B, ...] fp32 plus `added` [B, ...], of fp32 or bf16, times its mask; and `grad` fp32 times
/// the mask. Both by one kernel, that draws the mask and keeps none; nothing where torch cannot
/// compile it.
std::optional<at::Tensor> add_dropped_on_device(const at::Tensor& x, const at::Tensor& added,
                                                const at::Tensor& samples,
                                                const MaskStream& stream);
std::optional<at::Tensor> dropped_on_device(const at::Tensor& grad, const at::Tensor& samples,
                                            const MaskStream& stream);

/// Whether the kernel was compiled, or could be at its first use.
bool compiles_masks();

/// Computes device_mask() by operations on whole int64 tensors, on any device.
at::Tensor mask_by_steps(at::IntArrayRef sizes, at::IntArrayRef bounds, at::IntArrayRef origin,
                         const at::Tensor& samples, const MaskStream& stream, at::Device device);

/// Computes one element of a row as the kernel does, as bits of a float.
int mask_element(int64_t position, int64_t sample, const MaskStream& stream);
/// Computes the counter-th element of a line as drops_on_device()'s kernel does.
int64_t drops_element(int64_t line, int64_t counter, int64_t sample, const MaskStream& stream);

}  // namespace convoy::nn
