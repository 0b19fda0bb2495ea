#pragma once

namespace convoy::cli {

/// Lets tensors of the host take memory only under watch, from now on: what is more than this
/// process can ever have is an error at once, and a line on the standard error says, once, when
/// they take more than is left now, before the kernel's killer comes without a word.
void watch_memory();

}  // namespace convoy::cli
