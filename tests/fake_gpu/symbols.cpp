#include "tests/fake_gpu/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "tests/fake_gpu/device_lock.h"

namespace convoy::fake_gpu {

namespace {

struct Symbol {
  uintptr_t begin, size;
  std::string name;
};

/// The functions of a file, by address. Empty where it is stripped.
std::vector<Symbol> read_symbols(const std::string& file) {
  std::vector<Symbol> out;
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (fd < 0 || ::fstat(fd, &status) != 0) return out;
  const auto size = static_cast<size_t>(status.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (mapped == MAP_FAILED) return out;
  const auto* bytes = static_cast<const char*>(mapped);
  const auto* head = reinterpret_cast<const Elf64_Ehdr*>(bytes);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes + head->e_shoff);
  for (int s = 0; s < head->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const char* names = bytes + sections[sections[s].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(bytes + sections[s].sh_offset);
    for (size_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Sym); ++i) {
      if (ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC || symbols[i].st_size == 0) continue;
      out.push_back({symbols[i].st_value, symbols[i].st_size, names + symbols[i].st_name});
    }
  }
  ::munmap(mapped, size);
  std::sort(out.begin(), out.end(),
            [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; });
  return out;
}

const std::vector<Symbol>& symbols_of(const std::string& file) {
  static auto* all = new std::map<std::string, std::vector<Symbol>>;
  const Locked lock;
  const auto [found, fresh] = all->try_emplace(file);
  if (fresh) found->second = read_symbols(file);
  return found->second;
}

struct Object {
  std::string file;
  uintptr_t base = 0;
};

Object program() {
  Object out;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        static_cast<Object*>(to)->base = info->dlpi_addr;
        return 1;  // the first is the program
      },
      &out);
  out.file = "/proc/self/exe";
  return out;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

}  // namespace

void* program_symbol(const std::string& mangled) {
  const auto object = program();
  for (const auto& symbol : symbols_of(object.file)) {
    if (symbol.name == mangled) return reinterpret_cast<void*>(object.base + symbol.begin);
  }
  return ::dlsym(RTLD_DEFAULT, mangled.c_str());
}

std::vector<void*> program_functions(const std::string& name) {
  const auto last = name.substr(name.rfind(':') + 1);
  const auto object = program();
  std::vector<void*> out;
  for (const auto& symbol : symbols_of(object.file)) {
    const bool is_part = symbol.name.find(".cold") != std::string::npos;  // jumped into
    if (is_part || symbol.name.find(last) == std::string::npos) continue;
    if (short_name(demangled(symbol.name)) == name) {
      out.push_back(reinterpret_cast<void*>(object.base + symbol.begin));
    }
  }
  return out;
}

std::string short_name(const std::string& demangled) {
  std::string out;
  int depth = 0;
  for (size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    const std::string_view rest(demangled.data() + i, demangled.size() - i);
    if (depth == 0 && rest.starts_with("(anonymous namespace)::")) {
      i += std::string_view("(anonymous namespace)::").size() - 1;
    } else if (depth == 0 && rest.starts_with("operator()")) {
      out += "operator()";
      i += std::string_view("operator()").size() - 1;
    } else if (c == '(' || c == '<' || c == '[') {
      ++depth;
    } else if (c == ')' || c == '>' || c == ']') {
      --depth;
    } else if (depth == 0) {
      out += c;
    }
  }
  for (const std::string_view suffix : {" const", " "}) {
    while (out.ends_with(suffix)) out.erase(out.size() - suffix.size());
  }
  for (size_t at; (at = out.find(" const")) != std::string::npos;) out.erase(at, 6);
  const auto space = out.rfind(' ');
  return space == std::string::npos ? out : out.substr(space + 1);
}

Place place_of(const void* address) {
  Place out;
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return out;
  out.file = info.dli_fname;
  const auto main = program();
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  void* of_main = nullptr;
  Dl_info main_info{};
  if (::dladdr(reinterpret_cast<void*>(::dlsym(RTLD_DEFAULT, "main")), &main_info) != 0) {
    of_main = main_info.dli_fbase;
  }
  // A program at a fixed address is linked to it; others count from where they lie.
  const bool is_main =
      info.dli_fbase == of_main || base == main.base || (main.base == 0 && base == 0x400000);
  const auto& symbols = symbols_of(is_main ? main.file : out.file);
  const auto* head = static_cast<const Elf64_Ehdr*>(info.dli_fbase);
  const uintptr_t at = reinterpret_cast<uintptr_t>(address) - (head->e_type == ET_EXEC ? 0 : base);
  auto found = std::upper_bound(symbols.begin(), symbols.end(), at,
                                [](uintptr_t a, const Symbol& s) { return a < s.begin; });
  if (found == symbols.begin()) return out;
  --found;
  if (at >= found->begin + found->size) return out;
  out.function = short_name(demangled(found->name));
  out.offset = at - found->begin;
  return out;
}

}  // namespace convoy::fake_gpu
