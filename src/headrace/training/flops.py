"""Model FLOPs: what the mathematics of a step needs, whatever an implementation recomputes or pads."""

from __future__ import annotations

from typing import Any

from torch import nn

from headrace.records import MicroBatch


class FlopCounter:
    """Counts for one model: 2 FLOPs a weight and token in the body, the head only where a token is predicted.

    Attention adds 4 x layers x heads x head_dim x (position + 1) a token (two products over what it can see). A prompt
    block that rollouts of a row share counts once: that is what goes through the model.
    """

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        heads = config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        embeddings = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
        head = {id(p) for p in model.get_output_embeddings().parameters()}
        self.body_weights = sum(p.numel() for p in model.parameters() if id(p) not in embeddings | head)
        self.head_weights = config.vocab_size * config.hidden_size
        self.attention_per_position = 4 * config.num_hidden_layers * heads * head_dim

    def forward(self, micro: MicroBatch) -> float:
        """FLOPs of one forward pass over the real tokens of a micro-batch."""
        real = micro.segment >= 0
        seen = int((micro.position_ids[real] + 1).sum())
        head = 2 * self.head_weights * int(micro.trainable.sum())
        return float(2 * self.body_weights * int(real.sum()) + self.attention_per_position * seen + head)

    def training(self, micro: MicroBatch) -> float:
        """Forward and backward: three times the forward pass."""
        return 3 * self.forward(micro)
