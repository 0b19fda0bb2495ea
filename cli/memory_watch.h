#pragma once

namespace convoy::cli {

/// Counts the memory of the host's tensors from now on. An allocation beyond what this process can
/// ever have, or beyond a limit of tensor_memory, is an error at once. When tensors take more than
/// is left now, one line on standard error says so, before the kernel kills the process without a
/// word.
void watch_memory();

}  // namespace convoy::cli
