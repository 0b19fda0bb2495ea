#!/usr/bin/env python3
"""Writes the fixtures of SASRec, LiGR and gBCE: what RecTools' layers and losses compute.

Needs rectools[torch]==0.19.0 and safetensors; the committed files were made with torch 2.15.0, one thread, fp32:

    python3 tests/parity/make_rectools_fixtures.py tests/parity [NAME...]
"""
import sys
from types import SimpleNamespace

import torch
from rectools.models.nn.item_net import IdEmbeddingsItemNet, SumOfEmbeddingsConstructor
from rectools.models.nn.transformers.hstu import STULayers
from rectools.models.nn.transformers.lightning import TransformerLightningModule
from rectools.models.nn.transformers.ligr import LiGRLayers
from rectools.models.nn.transformers.net_blocks import LearnableInversePositionalEncoding
from rectools.models.nn.transformers.sasrec import SASRecTransformerLayers
from rectools.models.nn.transformers.similarity import DistanceSimilarityModule
from rectools.models.nn.transformers.torch_backbone import TransformerTorchBackbone

from session_reference import D, HEADS, ITEMS, LAYERS, LENGTH, hash_combine, make, mix64, uniform01

NEGATIVES, GBCE_T = 5, 0.6


def on_the_right(rows):
    """Rows [B, T] with their padding on the left, up to LENGTH, as RecTools has them."""
    out = torch.zeros(rows.shape[0], LENGTH, *rows.shape[2:], dtype=rows.dtype)
    for row, given in zip(out, rows):
        used = (given.reshape(given.shape[0], -1) != 0).any(1).sum()
        row[LENGTH - used:] = given[:used]
    return out


def negatives_of(targets, step, seed=0):
    """Ids drawn for each position: convoy/models/session/negatives.cpp in other words."""
    out = torch.zeros(*targets.shape, NEGATIVES, dtype=torch.long)
    step_key = hash_combine(hash_combine(mix64(seed), step), 0x67626365)
    for row in range(targets.shape[0]):
        key = hash_combine(step_key, row)
        for t in range(targets.shape[1]):
            target = int(targets[row, t])
            for j in range(NEGATIVES if target else 0):
                drawn = 1 + int(uniform01(key, t * NEGATIVES + j) * (ITEMS - 2))
                out[row, t, j] = drawn + (drawn >= target)
    return out


def pointwise(n_blocks, n_factors, n_heads, dropout_rate):
    """HSTU's layers; RecTools draws their products' weights elsewhere."""
    out = STULayers(n_blocks, n_factors, n_heads, n_factors // n_heads, n_factors // n_heads, LENGTH, True, True,
                    0.0, dropout_rate, 1e-5)
    for block in out.stu_blocks:
        torch.nn.init.xavier_normal_(block.uvqk_proj)
    return out


def times_of(ids):
    """[B, LENGTH + 1]: when each event was, those of padding at zero, on the right."""
    times = torch.where(ids != 0, 1700000000 + (ids * ids * 40).cumsum(1), 0)
    out = torch.zeros(ids.shape[0], LENGTH + 1, dtype=torch.long)
    for row, given in zip(out, times):
        used = (given != 0).sum()
        row[LENGTH + 1 - used:] = given[:used]
    return out


class Session(torch.nn.Module):
    """Padding is not looked at. Loss is the cross-entropy of all items, or RecTools' gBCE."""

    def __init__(self, layers, gbce):
        super().__init__()
        self.gbce = gbce
        table = IdEmbeddingsItemNet(n_factors=D, n_items=ITEMS, dropout_rate=0.0)
        self.items = table.ids_emb
        self.backbone = TransformerTorchBackbone(
            n_heads=HEADS, dropout_rate=0.0, item_model=SumOfEmbeddingsConstructor(ITEMS, [table]),
            pos_encoding_layer=LearnableInversePositionalEncoding(True, LENGTH, D),
            transformer_layers=layers(n_blocks=LAYERS, n_factors=D, n_heads=HEADS, dropout_rate=0.0),
            similarity_module=DistanceSimilarityModule(), use_causal_attn=True, use_key_padding_mask=layers is not pointwise)

    def forward(self, ids, step):
        asked = ids[:, 1:]
        batch = {"x": on_the_right(torch.where(asked != 0, ids[:, :-1], 0)), "y": on_the_right(asked),
                 "unix_ts": times_of(ids)}
        targets = batch["y"]
        if not self.gbce:
            scores = self.backbone(batch)[targets != 0]
            return torch.nn.functional.cross_entropy(scores[:, 1:], targets[targets != 0] - 1)
        candidates = torch.cat([targets[..., None], on_the_right(negatives_of(asked, step))], -1)
        scores = self.backbone(batch, candidate_item_ids=candidates)
        options = SimpleNamespace(gbce_t=GBCE_T, data_preparator=SimpleNamespace(n_negatives=NEGATIVES))
        scores = TransformerLightningModule._get_reduced_overconfidence_logits(options, scores, ITEMS - 1)
        return TransformerLightningModule._calc_bce_loss(scores, targets, torch.ones_like(targets))

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        for name, value in self.backbone.named_parameters():
            if value is not self.items.weight:
                yield name, value


KINDS = {
    "sasrec": lambda: Session(SASRecTransformerLayers, False),
    "ligr": lambda: Session(LiGRLayers, False),
    "hstu": lambda: Session(pointwise, False),
    "sasrec_gbce": lambda: Session(SASRecTransformerLayers, True),
}

make(KINDS, *(sys.argv[1:] or ["."]))
