#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace convoy::launch {

/// A line of a hostfile, as DeepSpeed and Open MPI have them: "node7 slots=8".
struct ListedHost {
  std::string name;
  int slots = 0;  ///< ranks on it; 0: not said
  int line = 0;
};

/// The hosts of a job in the order of their lines; what follows # is a comment. Throws FileError,
/// and UsageError that names the line.
std::vector<ListedHost> read_hostfile(const std::filesystem::path& file);

/// Index of this host among `hosts`, by its name, with or without a domain, or by an address that
/// it has. Throws UsageError when it is none of them, or several.
int own_place(const std::vector<ListedHost>& hosts, const std::filesystem::path& file);

}  // namespace convoy::launch
