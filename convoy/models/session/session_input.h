#pragma once

#include "convoy/masking/item_masking.h"
#include "convoy/models/session/session_embeddings.h"

namespace convoy::models {

/// Turns columns into hidden states: embeds and joins the features, hides items where the model is
/// trained on hidden ones, and adds positions. Columns that are to be predicted pass through.
/// Prediction with masked items appends a position, so T grows by one. So does cls, which comes
/// last.
///
/// Gives:
/// - `hidden` [B, T, D] (or a rank's share) and `item_ids` [B, T];
/// - `asked` [N], flat positions that predict; without masked items not in prediction on a GPU;
/// - `key_mask` [B, T] bool with masked items: the positions that are real;
/// - `query` [B, T, D] with permuted items instead: of no item, for XLNet's second stream;
/// - `visible` [B, T, T] bool with permuted items, too: the items that each position sees;
/// - for XLNet the entries of put_xlnet_guides();
/// - in evaluations of targets kUnknownTarget;
/// - for ReplacedItems the columns.
class SessionInput : public SessionEmbeddings {
 public:
  explicit SessionInput(const SessionConfig& config);

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override;
  bool takes_tensor_ranks() const override { return item_tower() == nullptr; }
  bool takes_sequence_parallel() const override { return !config_.permutes() && !item_tower(); }

 private:
  masking::ItemPermutation permutation(const at::Tensor& known, const at::Tensor& before,
                                       const nn::Context& context) const;
  /// Input under clm of a body that looks at both sides. As in Transformers4Rec, the learned vector
  /// stands where no item is, and in training also for the last item. In prediction the last of
  /// max_length positions holds nothing.
  at::Tensor seen_from_both_sides(const at::Tensor& x, const at::Tensor& known,
                                  const nn::Context& context) const;
  /// Mask [B, T] bool of the items, and of cls.
  at::Tensor items_of(const at::Tensor& ids, const nn::Context& context) const;
  /// Puts what HSTU reads into `out`: `time_buckets` [B, T, T], and `key_mask` of the items `read`
  /// [B, T].
  void put_times(nn::Bundle& out, const nn::Bundle& in, const at::Tensor& read,
                 const nn::Context& context) const;
  /// Mask of the items that each position sees. cls sees all of `read` [B, T]; its place follows
  /// from the items `known` [B, T].
  at::Tensor seen_by_cls(const at::Tensor& visible, const at::Tensor& known, const at::Tensor& read,
                         const nn::Context& context) const;

  nn::ParamPtr masked_item_, query_;  // in the place of hidden items; of no item
};

}  // namespace convoy::models
