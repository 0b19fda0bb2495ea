#include "convoy/formats/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/host_name.h"

namespace convoy::formats {

namespace {

static_assert(std::endian::native == std::endian::little, "event files are little-endian");

// Field numbers of event.proto (Event) and summary.proto (Summary, Summary.Value).
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
void put_fixed(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, int field, WireType type) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | type);
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

std::string new_event() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  put_key(event, kWallTime, kFixed64);
  put_fixed(event, now.count());
  return event;
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < out.size(); ++i) {
      out[i] = i;
      for (int bit = 0; bit < 8; ++bit) out[i] = (out[i] >> 1) ^ (out[i] & 1 ? 0x82f63b78u : 0);
    }
    return out;
  }();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = table[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& folder) {
  make_folder(folder);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  path_ = folder / fmt::format("events.out.tfevents.{}.{}.{}", seconds, host_name(), getpid());
  out_.emplace(path_, /*keep=*/false);
  auto event = new_event();
  put_bytes(event, kFileVersion, "brain.Event:2");
  if (const auto trouble = write_record(event); !trouble.empty()) {
    fail<FileError>("formats", "{}", trouble);
  }
}

std::string TensorboardWriter::add_scalars(const std::map<std::string, double>& values,
                                           int64_t step) {
  std::string summary;
  for (const auto& [tag, number] : values) {
    std::string value;
    put_bytes(value, kTag, tag);
    put_key(value, kSimpleValue, kFixed32);
    put_fixed(value, static_cast<float>(number));
    put_bytes(summary, kValue, value);
  }
  auto event = new_event();
  put_key(event, kStep, kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, kSummary, summary);
  return write_record(event);
}

std::string TensorboardWriter::write_record(std::string_view event) {
  std::string record;
  put_fixed(record, static_cast<uint64_t>(event.size()));
  put_fixed(record, masked_crc(record));
  record.append(event);
  put_fixed(record, masked_crc(event));
  return out_->append(record);
}

}  // namespace convoy::formats
