#!/usr/bin/env python3
"""Writes the fixtures of the parity tests: what PyTorch and Hugging Face's bodies compute.

Needs torch, transformers, safetensors and numpy (any recent versions; the committed files were made
with torch 2.15.0 and transformers 5.x, one thread, fp32):

    python3 tests/parity/make_fixtures.py tests/parity [NAME...]
"""
import sys

import torch
from transformers import (AlbertConfig, AlbertModel, BertConfig, BertModel, ElectraConfig, ElectraForMaskedLM,
                          ElectraForPreTraining, ElectraModel, GPT2Config, GPT2Model, XLNetConfig, XLNetModel)

from session_reference import D, HEADS, ITEMS, LAYERS, LENGTH, gumbel, hash_combine, make, mix64, uniform01


class Session(torch.nn.Module):
    """Item embedding, GPT-2 body, head tied to the item embedding; id 0 is padding."""

    def __init__(self, activation):
        super().__init__()
        self.items = torch.nn.Embedding(ITEMS, D, padding_idx=0)
        self.body = GPT2Model(GPT2Config(
            n_layer=LAYERS, n_embd=D, n_head=HEADS, n_positions=LENGTH, vocab_size=1,
            activation_function=activation, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
        self.body.wte.weight.requires_grad_(False)

    def forward(self, ids, step):
        h = self.body(inputs_embeds=self.items(ids)).last_hidden_state[:, :-1]
        target = ids[:, 1:]
        valid = target != 0
        scores = h[valid] @ self.items.weight[1:].T
        return torch.nn.functional.cross_entropy(scores, target[valid] - 1)

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        for name, value in self.body.named_parameters():
            if value.requires_grad:
                yield "transformer." + name, value


def hidden_items(ids, step, probability=0.3, seed=0):
    """Which items masked-item training hides: convoy/models/session/masking.cpp in other words."""
    mask = torch.zeros_like(ids, dtype=torch.bool)
    step_key = hash_combine(hash_combine(mix64(seed), step), 0x6D61736B)
    for row in range(ids.shape[0]):
        key = hash_combine(step_key, row)
        places = [t for t in range(ids.shape[1]) if ids[row, t] != 0]
        hidden = [t for t in places if uniform01(key, t) < probability]
        if len(places) < 2:
            continue
        if len(hidden) in (0, len(places)):
            one = places[int(uniform01(key, 1 << 40) * len(places))]
            hidden = [t for t in places if (t in hidden) != (t == one)]
        mask[row, hidden] = True
    return mask


def permutation(ids, step, probability=0.3, max_span=5, permute_all=False, seed=0):
    """Which items plm asks for, and who sees whom: convoy/models/session/masking.cpp in other words."""
    rows, length = ids.shape
    asked = torch.zeros_like(ids, dtype=torch.bool)
    visible = torch.zeros(rows, length, length, dtype=torch.bool)
    step_key = hash_combine(mix64(seed), step)
    for row in range(rows):
        key = hash_combine(hash_combine(step_key, 0x7370616E), row)
        order_key = hash_combine(hash_combine(step_key, 0x6F726472), row)
        places = [t for t in range(length) if ids[row, t] != 0]
        chosen, begin, draw = set(), 0, 0
        while begin < len(places):
            span = 1 + int(uniform01(key, draw) * max_span)
            stretch = int(span / probability)
            first = begin + int(uniform01(key, draw + 1) * (stretch - span + 1))
            chosen |= set(places[first:first + span])
            begin, draw = begin + stretch, draw + 2
        if len(chosen) in (0, len(places)):
            chosen ^= {places[int(uniform01(key, 1 << 40) * len(places))]}
        order = {t: uniform01(order_key, t) for t in places if permute_all or t in chosen}
        for i in range(length):
            for j in places:
                visible[row, i, j] = (j not in order) or (i in order and order[j] < order[i])
        asked[row, sorted(chosen)] = True
    return asked, visible


def bert_like(config, **more):
    return config(
        num_hidden_layers=LAYERS, hidden_size=D, num_attention_heads=HEADS, vocab_size=1,
        intermediate_size=4 * D, max_position_embeddings=LENGTH + 1, hidden_act="gelu",
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, layer_norm_eps=1e-5, **more)


def xlnet(attn_type):
    return XLNetModel(XLNetConfig(
        vocab_size=1, d_model=D, n_layer=LAYERS, n_head=HEADS, d_inner=4 * D, ff_activation="gelu",
        attn_type=attn_type, dropout=0.0, layer_norm_eps=1e-5, mem_len=None))


BODIES = {
    "bert": lambda: BertModel(bert_like(BertConfig), add_pooling_layer=False),
    "albert": lambda: AlbertModel(bert_like(AlbertConfig, embedding_size=D), add_pooling_layer=False),
    "electra": lambda: ElectraModel(bert_like(ElectraConfig, embedding_size=D)),
    "transformer": lambda: xlnet("bi"),
}


class MaskedSession(torch.nn.Module):
    """Item embedding, a body that looks at both sides, hidden items predicted by the tied head."""

    def __init__(self, prefix):
        super().__init__()
        self.prefix = prefix
        self.items = torch.nn.Embedding(ITEMS, D, padding_idx=0)
        self.mask = torch.nn.Parameter(0.1 * torch.randn(D))
        self.body = BODIES[prefix]()
        self.body.get_input_embeddings().weight.requires_grad_(False)

    def forward(self, ids, step):
        hidden = hidden_items(ids, step)
        x = torch.where(hidden[..., None], self.mask, self.items(ids))
        real = (ids != 0) | hidden
        h = self.body(inputs_embeds=x, attention_mask=real.to(x.dtype)).last_hidden_state
        scores = h[hidden] @ self.items.weight[1:].T
        return torch.nn.functional.cross_entropy(scores, ids[hidden] - 1)

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        yield "masked_item_embedding", self.mask
        yield from of_body(self.body, self.prefix)


class ReplacedItems(torch.nn.Module):
    """ELECTRA: a generator predicts hidden items, a discriminator tells the draws that took their places."""

    def __init__(self):
        super().__init__()
        self.items = torch.nn.Embedding(ITEMS, D, padding_idx=0)
        self.mask = torch.nn.Parameter(0.1 * torch.randn(D))
        config = bert_like(ElectraConfig, embedding_size=D)
        config.vocab_size, config.pad_token_id = ITEMS, 0
        self.generator, self.discriminator = ElectraForMaskedLM(config), ElectraForPreTraining(config)
        self.generator.electra.embeddings.word_embeddings = self.items
        self.generator.generator_lm_head.weight = self.items.weight
        self.generator.generator_lm_head.bias.requires_grad_(False).zero_()
        self.discriminator.electra.embeddings = self.generator.electra.embeddings

    def forward(self, ids, step, seed=0):
        hidden = hidden_items(ids, step)
        real = (ids != 0).to(self.mask.dtype)
        x = torch.where(hidden[..., None], self.mask, self.items(ids))
        scores = self.generator(inputs_embeds=x, attention_mask=real).logits[hidden][:, 1:]
        drawn = ids.clone()
        step_key = hash_combine(hash_combine(mix64(seed), step), 0x67756D62)
        for (row, place), own in zip(hidden.nonzero().tolist(), scores.detach().double()):
            key = hash_combine(hash_combine(step_key, row), place)
            drawn[row, place] = 1 + (own + torch.tensor(gumbel(key, ITEMS - 1), dtype=own.dtype)).argmax()
        told = self.discriminator(input_ids=drawn, attention_mask=real).logits
        wrong = torch.nn.functional.binary_cross_entropy_with_logits(
            told, (drawn != ids).to(told.dtype), reduction="none")
        of_sessions = (wrong * real).sum(1) / real.sum(1)
        predicted = torch.nn.functional.cross_entropy(scores, ids[hidden] - 1)
        return predicted + 50 * (of_sessions * hidden.sum(1)).sum() / hidden.sum()

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        yield "masked_item_embedding", self.mask
        for name, value in self.generator.named_parameters():
            if value.requires_grad and value is not self.items.weight:
                yield name, value
        for name, value in self.discriminator.named_parameters():
            if "embeddings" not in name:
                yield name.replace("electra.", "discriminator.", 1), value


class CausalXlnet(Session):
    """XLNet whose positions see what came before."""

    def __init__(self):
        torch.nn.Module.__init__(self)
        self.items = torch.nn.Embedding(ITEMS, D, padding_idx=0)
        self.body = xlnet("uni")
        self.body.get_input_embeddings().weight.requires_grad_(False)

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        yield from of_body(self.body, "transformer")


class PermutedXlnet(CausalXlnet):
    """XLNet's two streams: the second one's states predict the items that are asked for."""

    def __init__(self, permute_all):
        super().__init__()
        self.body = xlnet("bi")
        self.body.get_input_embeddings().weight.requires_grad_(False)
        self.permute_all = permute_all

    def forward(self, ids, step):
        asked, visible = permutation(ids, step, permute_all=self.permute_all)
        x = self.items(ids)
        # Its second stream takes the sinusoids in fp32 only.
        self.body.relative_positional_encoding = lambda *args, **more: XLNetModel.relative_positional_encoding(
            self.body, *args, **more).to(x.dtype)
        each = torch.eye(ids.shape[1], dtype=x.dtype).expand(ids.shape[0], -1, -1)
        h = self.body(inputs_embeds=x, perm_mask=(~visible).to(x.dtype), target_mapping=each).last_hidden_state
        scores = h[asked] @ self.items.weight[1:].T
        return torch.nn.functional.cross_entropy(scores, ids[asked] - 1)

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        yield from of_body(self.body, "transformer", ("seg_embed", "r_s_bias"))


def of_body(body, prefix, unused=("seg_embed", "r_s_bias", "mask_emb")):
    """What has a gradient: not what only segments, queries of XLNet's second stream, or texts use."""
    for name, value in body.named_parameters():
        if value.requires_grad and not any(part in name for part in unused):
            yield f"{prefix}.{name}", value


KINDS = {
    "gelu": lambda: Session("gelu"),
    "gelu_new": lambda: Session("gelu_new"),
    "bert": lambda: MaskedSession("bert"),
    "albert": lambda: MaskedSession("albert"),
    "electra": lambda: MaskedSession("electra"),
    "electra_rtd": ReplacedItems,
    "xlnet_mlm": lambda: MaskedSession("transformer"),
    "xlnet_clm": CausalXlnet,
    "xlnet_plm": lambda: PermutedXlnet(False),
}


make(KINDS, *(sys.argv[1:] or ["."]))
