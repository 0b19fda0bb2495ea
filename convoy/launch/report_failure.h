#pragma once

#include <exception>

namespace convoy::launch {

/// Prints the error that ended main() to standard error, with the rank. Leaves it where the
/// launcher looks for it (write_error_file), so that the rank that failed first is named. Returns
/// the exit code: 2 for a UsageError, 3 for a CommunicationError, 70 for an InternalError, else 1.
///
///     int main() try { ... } catch (const std::exception& error) {
///       return convoy::report_failure(error);
///     }
int report_failure(const std::exception& error) noexcept;

}  // namespace convoy::launch
