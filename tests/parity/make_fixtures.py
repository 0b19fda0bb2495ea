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

from session_reference import (D, HEADS, ITEMS, LAYERS, LENGTH, gumbel, hash_combine, hidden_items, make, mix64,
                               permutation)


CATEGORIES = 7


class Features(torch.nn.Module):
    """A category and a price beside each item, which follow from its id: all three as one vector."""

    def __init__(self):
        super().__init__()
        self.kinds = torch.nn.Embedding(CATEGORIES, D, padding_idx=0)
        self.price = torch.nn.Linear(1, D)
        self.joined = torch.nn.Linear(3 * D, D)

    def forward(self, items, ids):
        """`items` [B, T, D] stand at the places of `ids`, whose category and price they have."""
        kinds = self.kinds(torch.where(ids > 0, 1 + ids % (CATEGORIES - 1), 0))
        price = self.price((ids % 11).to(torch.float32)[..., None].to(items.dtype) / 10)
        return self.joined(torch.cat([items, kinds, torch.relu(price)], -1))

    def named(self):
        yield "embeddings.kind-list.weight", self.kinds.weight
        for name, part in ("continuous_projection", self.price), ("input_projection", self.joined):
            yield name + ".weight", part.weight
            yield name + ".bias", part.bias


class Session(torch.nn.Module):
    """Item embedding, GPT-2 body, head tied to the item embedding or not; id 0 is padding."""

    def __init__(self, activation, tied=True):
        super().__init__()
        self.head = None if tied else torch.nn.Linear(D, ITEMS, bias=False)
        self.features = None
        self.items = torch.nn.Embedding(ITEMS, D, padding_idx=0)
        self.body = GPT2Model(GPT2Config(
            n_layer=LAYERS, n_embd=D, n_head=HEADS, n_positions=LENGTH, vocab_size=1,
            activation_function=activation, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
        self.body.wte.weight.requires_grad_(False)

    def inputs(self, ids):
        x = self.items(ids)
        return x if self.features is None else self.features(x, ids)

    def forward(self, ids, step):
        h = self.body(inputs_embeds=self.inputs(ids)).last_hidden_state[:, :-1]
        target = ids[:, 1:]
        valid = target != 0
        scores = h[valid] @ (self.head or self.items).weight[1:].T
        return torch.nn.functional.cross_entropy(scores, target[valid] - 1)

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        for name, value in self.body.named_parameters():
            if value.requires_grad:
                yield "transformer." + name, value
        if self.head is not None:
            yield "lm_head.weight", self.head.weight


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

    def __init__(self, every=False):
        super().__init__()
        self.features = Features() if every else None
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
        x = torch.where(hidden[..., None], self.mask, self.inputs(ids, ids))
        scores = self.generator(inputs_embeds=x, attention_mask=real).logits[hidden][:, 1:]
        drawn = ids.clone()
        step_key = hash_combine(hash_combine(mix64(seed), step), 0x67756D62)
        for (row, place), own in zip(hidden.nonzero().tolist(), scores.detach().double()):
            key = hash_combine(hash_combine(step_key, row), place)
            drawn[row, place] = 1 + (own + torch.tensor(gumbel(key, ITEMS - 1), dtype=own.dtype)).argmax()
        told = self.discriminator(inputs_embeds=self.inputs(drawn, ids), attention_mask=real).logits
        wrong = torch.nn.functional.binary_cross_entropy_with_logits(
            told, (drawn != ids).to(told.dtype), reduction="none")
        of_sessions = (wrong * real).sum(1) / real.sum(1)
        predicted = torch.nn.functional.cross_entropy(scores, ids[hidden] - 1)
        return predicted + 50 * (of_sessions * hidden.sum(1)).sum() / hidden.sum()

    def inputs(self, items, ids):
        x = self.items(items)
        return x if self.features is None else self.features(x, ids)

    def named(self):
        yield "embeddings.item_id-list.weight", self.items.weight
        yield "masked_item_embedding", self.mask
        if self.features is not None:
            yield from self.features.named()
        for name, value in self.generator.named_parameters():
            if value.requires_grad and value is not self.items.weight:
                yield name, value
        for name, value in self.discriminator.named_parameters():
            if "embeddings" not in name:
                yield name.replace("electra.", "discriminator.", 1), value


class CausalXlnet(Session):
    """XLNet whose positions see what came before."""

    def __init__(self, every=False):
        torch.nn.Module.__init__(self)
        self.head = None
        self.features = Features() if every else None
        self.items = torch.nn.Embedding(ITEMS, D, padding_idx=0)
        self.body = xlnet("uni")
        self.body.get_input_embeddings().weight.requires_grad_(False)

    def named(self, unused=("seg_embed", "r_s_bias", "mask_emb")):
        yield "embeddings.item_id-list.weight", self.items.weight
        if self.features is not None:
            yield from self.features.named()
        yield from of_body(self.body, "transformer", unused)


class PermutedXlnet(CausalXlnet):
    """XLNet's two streams: the second one's states predict the items that are asked for."""

    def __init__(self, permute_all, every=False):
        super().__init__(every)
        self.body = xlnet("bi")
        self.body.get_input_embeddings().weight.requires_grad_(False)
        self.permute_all = permute_all

    def forward(self, ids, step):
        asked, visible = permutation(ids, step, permute_all=self.permute_all)
        x = self.inputs(ids)
        # Its second stream takes the sinusoids in fp32 only.
        self.body.relative_positional_encoding = lambda *args, **more: XLNetModel.relative_positional_encoding(
            self.body, *args, **more).to(x.dtype)
        each = torch.eye(ids.shape[1], dtype=x.dtype).expand(ids.shape[0], -1, -1)
        h = self.body(inputs_embeds=x, perm_mask=(~visible).to(x.dtype), target_mapping=each).last_hidden_state
        scores = h[asked] @ self.items.weight[1:].T
        return torch.nn.functional.cross_entropy(scores, ids[asked] - 1)

    def named(self):
        yield from super().named(("seg_embed", "r_s_bias"))


def of_body(body, prefix, unused=("seg_embed", "r_s_bias", "mask_emb")):
    """What has a gradient: not what only segments, queries of XLNet's second stream, or texts use."""
    for name, value in body.named_parameters():
        if value.requires_grad and not any(part in name for part in unused):
            yield f"{prefix}.{name}", value


KINDS = {
    "gelu": lambda: Session("gelu"),
    "gelu_new": lambda: Session("gelu_new"),
    "gpt2_untied": lambda: Session("gelu", tied=False),
    "bert": lambda: MaskedSession("bert"),
    "albert": lambda: MaskedSession("albert"),
    "electra": lambda: MaskedSession("electra"),
    "electra_rtd": ReplacedItems,
    "xlnet_mlm": lambda: MaskedSession("transformer"),
    "xlnet_clm": CausalXlnet,
    "xlnet_plm": lambda: PermutedXlnet(False),
    "xlnet_clm_all": lambda: CausalXlnet(every=True),
    "xlnet_plm_all": lambda: PermutedXlnet(False, every=True),
    "electra_rtd_all": lambda: ReplacedItems(every=True),
}


make(KINDS, *(sys.argv[1:] or ["."]))
