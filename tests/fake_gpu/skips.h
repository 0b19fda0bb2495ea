#pragma once

namespace convoy::fake_gpu {

/// Makes the functions of the program that the options name return at once. Where there is none of
/// a name, which may have become a part of its callers, that is a misuse.
void skip_functions();

}  // namespace convoy::fake_gpu
