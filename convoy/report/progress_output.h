#pragma once

#include <chrono>
#include <cstdio>
#include <string_view>

namespace convoy::report {

/// Prints text that is no result, such as progress: a run continues where nobody can take it. Where
/// a reader pauses, as a pager or a terminal that was stopped, the text waits while the run
/// continues, and beyond 16 MiB it is left out.
void show_progress(std::string_view text, std::FILE* stream = stdout);

/// Prints text like show_progress(), but waits for the reader: for callers with a thread of their
/// own for it.
void print_progress(std::string_view text, std::FILE* stream);

/// Whether a line of a terminal that is drawn again and again would be shown at once.
bool takes_progress(std::FILE* stream);

/// Waits until all was shown; at most so long.
void finish_progress(std::chrono::milliseconds most = std::chrono::milliseconds::max());

}  // namespace convoy::report
