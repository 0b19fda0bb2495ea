#include "convoy/nn/documents.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <string>

#include "convoy/base/error.h"
#include "convoy/nn/attention/attention.h"
#include "convoy/nn/layers/dropout.h"
#include "tests/nn/peak_memory.h"
#include "tests/nn/testing.h"

// Documents of a row do not see each other.
namespace convoy::nn {
namespace {

constexpr int64_t kPackedRows = 2, kPackedLength = 300, kPackedHeads = 4, kPackedKeys = 2,
                  kPackedWidth = 8;

/// Documents of 170, 1, 4 and 90 positions before padding, and of 20 and 280.
at::Tensor two_rows() {
  auto out = at::full({kPackedRows, kPackedLength}, -1, at::kLong);
  int64_t number = 0;
  const auto add = [&](int64_t row, int64_t begin, int64_t length) {
    out[row].narrow(0, begin, length).fill_(number++);
  };
  add(0, 0, 170);
  add(0, 170, 1);
  add(0, 171, 4);
  add(0, 175, 90);
  add(1, 0, 20);
  add(1, 20, 280);
  return out;
}

std::map<std::string, AttentionOptions> packed_kinds() {
  AttentionOptions plain;
  plain.max_length = kPackedLength;
  plain.documents = two_rows();
  std::map<std::string, AttentionOptions> out;
  const auto add = [&](const char* name, const auto& change) {
    out[name] = plain;
    change(out[name]);
  };
  add("plain", [](auto&) {});
  add("dropout", [](auto& o) { o.dropout = 0.3; });
  add("window", [](auto& o) { o.window = 50; });
  add("cap", [](auto& o) { o.cap = 2; });
  add("window, cap and dropout", [](auto& o) {
    o.window = 30;
    o.cap = 1;
    o.dropout = 0.2;
  });
  add("key mask", [](auto& o) {
    o.key_mask = at::ones({kPackedRows, kPackedLength}, at::kBool);
    o.key_mask[0].narrow(0, 180, 7).fill_(false);
  });
  return out;
}

struct PackedResult {
  at::Tensor out;
  std::vector<at::Tensor> grads;  // of q, k and v
};

struct PackedInputs {
  at::Tensor q = at::randn({kPackedRows, kPackedHeads, kPackedLength, kPackedWidth}),
             k = at::randn({kPackedRows, kPackedKeys, kPackedLength, kPackedWidth}),
             v = at::randn({kPackedRows, kPackedKeys, kPackedLength, kPackedWidth});
  at::Tensor probe = at::randn({kPackedRows, kPackedHeads, kPackedLength, kPackedWidth});
};

Context context_of_rows(int64_t first, int64_t rows, Mode mode) {
  Context out;
  out.mode = mode;
  out.seed = 5;
  out.samples = at::arange(first, first + rows, at::kLong);
  return out;
}

PackedResult run_packed(const PackedInputs& in, const AttentionOptions& options,
                        Mode mode = Mode::Train) {
  const auto leaf = [](const at::Tensor& x) { return x.clone().requires_grad_(true); };
  const auto q = leaf(in.q), k = leaf(in.k), v = leaf(in.v);
  const auto out = attention(q, k, v, options, context_of_rows(3, q.size(0), mode));
  if (mode != Mode::Train) return {out.detach(), {}};
  backward((out * in.probe).sum());
  return {out.detach(), {q.grad(), k.grad(), v.grad()}};
}

/// The part of a document in each row's positions.
PackedInputs document_of(const PackedInputs& in, const DocumentPlace& at) {
  const auto part = [&](const at::Tensor& x) {
    return x.narrow(0, at.row, 1).narrow(2, at.begin, at.length);
  };
  return {part(in.q), part(in.k), part(in.v), part(in.probe)};
}

TEST(Documents, AreStretchesOfEqualNumbers) {
  const auto places = places_of_documents(two_rows());
  ASSERT_EQ(places.size(), 7u);
  EXPECT_EQ(places[3].begin, 175);
  EXPECT_EQ(places[3].length, 90);
  EXPECT_TRUE(places[4].is_padding);
  EXPECT_EQ(places[5].row, 1);
  EXPECT_FALSE(are_whole_rows(places, two_rows()));
  const auto whole = at::arange(3, at::kLong).unsqueeze(1).expand({3, 9});
  EXPECT_TRUE(are_whole_rows(places_of_documents(whole), whole));
}

TEST(Documents, AreAttendedToAsRowsOfTheirOwn) {
  const PackedInputs in;
  for (const auto& [name, options] : packed_kinds()) {
    if (options.dropout > 0) continue;  // is addressed by the place in the row
    for (const auto mode : {Mode::Train, Mode::Evaluate}) {
      const auto packed = run_packed(in, options, mode);
      for (const auto& at : places_of_documents(options.documents)) {
        SCOPED_TRACE(name + " " + std::to_string(at.begin));
        const auto place = document_of({packed.out, packed.out, packed.out, packed.out}, at).q;
        if (at.is_padding) {
          EXPECT_TRUE(place.equal(at::zeros_like(place)));
          continue;
        }
        auto alone = options;
        alone.documents = at::Tensor();
        if (alone.key_mask.defined()) {
          alone.key_mask = alone.key_mask.narrow(0, at.row, 1).narrow(1, at.begin, at.length);
        }
        const auto expected = run_packed(document_of(in, at), alone, mode);
        expect_close(place, expected.out);
        for (size_t i = 0; i < packed.grads.size(); ++i) {
          const auto grad = packed.grads[i].narrow(0, at.row, 1).narrow(2, at.begin, at.length);
          EXPECT_TRUE(at::allclose(grad, expected.grads[i], 1e-4, 1e-5)) << i;
        }
      }
    }
  }
}

TEST(Documents, ChangeNoBitOfEachOther) {
  const PackedInputs in;
  for (const auto& [name, options] : packed_kinds()) {
    SCOPED_TRACE(name);
    // Only the third document of the first row is asked for.
    PackedInputs one = in, other = in;
    one.probe = at::zeros_like(in.probe);
    const DocumentPlace asked{0, 175, 90};
    document_of(one, asked).probe.copy_(document_of(in, asked).probe);
    other.probe = one.probe;
    for (auto* x : {&other.q, &other.k, &other.v}) {
      const auto kept = x->narrow(0, 0, 1).narrow(2, asked.begin, asked.length);
      *x = at::randn_like(*x) * 30;
      x->narrow(0, 0, 1).narrow(2, asked.begin, asked.length).copy_(kept);
    }
    const auto a = run_packed(one, options), b = run_packed(other, options);
    const auto place = [&](const at::Tensor& x) {
      return x.narrow(0, 0, 1).narrow(2, asked.begin, asked.length);
    };
    EXPECT_TRUE(at::equal(place(a.out), place(b.out)));
    EXPECT_FALSE(at::equal(a.out, b.out));
    for (size_t i = 0; i < a.grads.size(); ++i) {
      EXPECT_TRUE(at::equal(a.grads[i], b.grads[i])) << i;
      EXPECT_GT(place(a.grads[i]).abs().max().item<float>(), 0);
    }
  }
}

TEST(Documents, OneDocumentARowEqualsPlainRows) {
  const PackedInputs in;
  for (auto [name, options] : packed_kinds()) {
    SCOPED_TRACE(name);
    options.documents =
        at::arange(kPackedRows, at::kLong).unsqueeze(1).expand({kPackedRows, kPackedLength});
    const auto packed = run_packed(in, options);
    options.documents = at::Tensor();
    const auto rows = run_packed(in, options);
    EXPECT_TRUE(at::equal(packed.out, rows.out));
    for (size_t i = 0; i < rows.grads.size(); ++i) {
      EXPECT_TRUE(at::equal(packed.grads[i], rows.grads[i])) << i;
    }
  }
}

TEST(Documents, DropTheSameHoweverRowsAreDealt) {
  const PackedInputs in;
  for (const auto& [name, options] : packed_kinds()) {
    SCOPED_TRACE(name);
    const auto both = run_packed(in, options);
    auto alone = options;
    alone.documents = options.documents.narrow(0, 1, 1);
    if (alone.key_mask.defined()) alone.key_mask = options.key_mask.narrow(0, 1, 1);
    const auto second = [](const at::Tensor& x) { return x.narrow(0, 1, 1); };
    const auto out = attention(second(in.q), second(in.k), second(in.v), alone,
                               context_of_rows(4, 1, Mode::Train));
    EXPECT_TRUE(at::equal(out, second(both.out)));
  }
}

TEST(Documents, DropByTheirPlaceInTheRow) {
  const PackedInputs in;
  AttentionOptions options;
  options.max_length = kPackedLength;
  options.documents = two_rows();
  options.dropout = 0.3;
  const auto out = run_packed(in, options).out;
  constexpr int64_t kGroups = kPackedHeads / kPackedKeys;
  const auto k = in.k.repeat_interleave(kGroups, 1), v = in.v.repeat_interleave(kGroups, 1);
  auto seen = options.documents.unsqueeze(1).eq(options.documents.unsqueeze(2)).tril();
  const auto scores = at::matmul(in.q, k.transpose(2, 3)) / std::sqrt(double{kPackedWidth});
  const auto mixed = at::softmax(scores.masked_fill(~seen.unsqueeze(1), -HUGE_VAL), -1);
  const auto mask = dropout_mask(mixed.sizes(), 0.3, context_of_rows(3, kPackedRows, Mode::Train),
                                 0, {kPackedHeads, kPackedLength, kPackedLength});
  const auto expected = at::matmul(mixed * mask, v);
  const auto real = options.documents.ge(0).unsqueeze(1).unsqueeze(3);
  EXPECT_TRUE(at::allclose(out, expected * real, 1e-4, 1e-5));
}

TEST(Documents, KeepNoMatrix) {
  const auto leaf = [](int64_t heads) {
    return at::randn({1, heads, 2000, kPackedWidth}).requires_grad_(true);
  };
  const auto q = leaf(kPackedHeads), k = leaf(kPackedHeads), v = leaf(kPackedHeads);
  AttentionOptions options;
  options.max_length = 2000;
  options.documents = at::arange(2000, at::kLong).div(500, "floor").unsqueeze(0);
  PeakMemory memory;
  const auto out = attention(q, k, v, options, context_of_rows(0, 1, Mode::Train));
  EXPECT_LT(memory.peak(), kPackedHeads * 500 * 500 * 4);
}

class ListeningBlock : public Block {
 public:
  explicit ListeningBlock(bool takes) : Block(takes ? "hears" : "deaf"), takes_(takes) {}
  Bundle forward(const Bundle& in, const Context&) override { return in; }
  bool takes_documents() const override { return takes_; }

 private:
  bool takes_;
};

TEST(Documents, AreRefusedWhereNobodyKeepsThemApart) {
  const Bundle batch{{"input_ids", at::zeros({1, 4}, at::kLong)},
                     {"documents", at::zeros({1, 4}, at::kLong)}};
  const auto message = [&](const Bundle& given, bool takes, int ranks) -> std::string {
    try {
      check_documents(
          given, {std::make_shared<ListeningBlock>(true), std::make_shared<ListeningBlock>(takes)},
          ranks);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(batch, true, 1), "");
  EXPECT_THAT(message(batch, false, 1), testing::HasSubstr("1 of this model's 2 blocks"));
  EXPECT_THAT(message(batch, true, 2), testing::HasSubstr("context_parallel_size = 2"));
  auto other = batch;
  other["documents"] = at::zeros({1, 3}, at::kLong);
  EXPECT_THAT(message(other, true, 1), testing::HasSubstr("1 x 3"));
  other.erase("documents");
  EXPECT_EQ(message(other, false, 2), "");
}

}  // namespace
}  // namespace convoy::nn
