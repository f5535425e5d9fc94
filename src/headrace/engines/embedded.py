"""The engine inside the generator process: continuous batching over a Hugging Face model, on CPU or one GPU."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headrace.engines.lane import Lane, chunks, padded
from headrace.engines.module_decoder import ModuleDecoder
from headrace.engines.requests import check_request
from headrace.engines.turns import Turns
from headrace.engines.weights import tensors_of
from headrace.errors import DataError, HeadraceError, PublicationError
from headrace.models.fast_forward import fuse, why_not
from headrace.models.loading import load_causal_lm

if TYPE_CHECKING:
    from headrace.engines.decoder import Decoder
    from headrace.records import Completion, FloatArray, GenerationRequest, IntArray, WeightSet, WeightUpdate

SCORE_TOKENS = 2048  # padded tokens scored together


class EmbeddedEngine:
    """Implements ``protocols.Engine``.

    Policy and pinned sequences have ``num_slots`` slots each, and a cache each; a decode step serves one of the sets.

    Args:
        folder: a Hugging Face causal language model on disk.
        num_slots: sequences of one weight set that decode at the same time.
        dtype: torch's name of the type weights, activations and cache have. Logits are float32 whatever it is.
        deterministic: a request's tokens and log-probabilities are then the same bit for bit whoever shares the batch,
            at the price of padded shapes.
        max_len: longest sequence, prefix included; the model's own limit when None.
        fast_forward: run a hand-fused forward; None means where the architecture has one.

    Raises ``DataError`` for a folder, length or architecture that cannot be served.
    """

    name = "embedded"
    weight_sets: tuple[str, ...] = ("policy", "pinned")

    def __init__(
        self,
        folder: str,
        *,
        num_slots: int,
        dtype: str = "float32",
        device: str = "cpu",
        deterministic: bool = False,
        max_len: int | None = None,
        fast_forward: bool | None = None,
    ) -> None:
        if num_slots < 1:
            raise DataError(f"num_slots is {num_slots}; an engine needs at least 1")
        model: Any = load_causal_lm(folder, dtype=dtype, device=device)
        self.batch_invariant = deterministic
        self.num_slots = num_slots
        self.max_len = _context(model.config, max_len)
        self.vocab_size = int(model.get_input_embeddings().weight.shape[0])
        self.version = 0
        self.pinned_version: int | None = None
        self._lineage = 0
        self._turns = Turns()
        self._policy = self._lane(_decoder_for(model, fast_forward))
        self._pinned: Lane | None = None
        self._lane_of: dict[str, Lane] = {}

    @property
    def num_active(self) -> int:
        return sum(lane.num_active for lane in self._lanes())

    @property
    def num_waiting(self) -> int:
        return sum(lane.num_waiting for lane in self._lanes())

    def submit(self, request: GenerationRequest) -> None:
        """Queue a request. Raises ``DataError`` naming it when it does not fit the context, or cannot be served."""
        check_request(request, max_len=self.max_len, vocab_size=self.vocab_size, lineage=self._lineage)
        if request.request_id in self._lane_of:
            raise DataError(f"request {request.request_id!r} is already queued or running")
        lane = self._serving(request.weights)
        self._lane_of[request.request_id] = lane
        lane.submit(request)

    def cancel(self, request_id: str) -> None:
        """Forget a queued or running request; unknown ids are ignored."""
        lane = self._lane_of.pop(request_id, None)
        if lane is not None:
            lane.cancel(request_id)

    @torch.inference_mode()
    def step(self) -> list[Completion]:
        """Serve the weight set whose turn it is: fill its slots, sample a token a sequence, return what ended."""
        turn = self._turns.take(policy=self._policy.has_work, pinned=self._pinned is not None and self._pinned.has_work)
        if turn is None:
            return []
        lane = self._serving(turn)
        version = self.version if turn == "policy" else self.pinned_version
        assert version is not None
        ended = lane.step(version)
        for completion in ended:
            del self._lane_of[completion.request_id]
        return ended

    @torch.inference_mode()
    def load_weights(self, update: WeightUpdate) -> None:
        """Replace the policy weights in place. An update of a newer lineage first resets the engine to it.

        Raises ``PublicationError`` for an older lineage, or tensors that do not match the model.
        """
        if update.kind != "full":
            raise PublicationError(f"the embedded engine takes full weights, not an update of kind {update.kind!r}")
        if update.lineage < self._lineage:
            raise PublicationError(f"weights of lineage {update.lineage} reached an engine of lineage {self._lineage}")
        if update.lineage > self._lineage:
            self.reset(update.lineage)
        decoder = self._policy.decoder
        missing = decoder.parameter_names() - {spec.name for spec in update.specs}
        if missing:
            raise PublicationError(
                f"version {update.version} lacks {len(missing)} tensors, {min(missing)!r} among them"
            )
        for name, tensor in tensors_of(update):
            decoder.load(name, tensor)
        self.version = update.version

    def pin(self) -> int:
        """Copy the policy weights into the pinned set (allocated the first time); return the version pinned.

        Raises ``HeadraceError`` while a pinned sequence is queued or running.
        """
        if self._pinned is None:
            self._pinned = self._lane(copy.deepcopy(self._policy.decoder))
        elif self._pinned.has_work:
            raise HeadraceError("weights cannot be pinned while sequences of the pinned set are queued or running")
        else:
            with torch.inference_mode():
                self._pinned.decoder.copy_from(self._policy.decoder)
        self.pinned_version = self.version
        return self.version

    @torch.inference_mode()
    def score(self, sequences: Sequence[IntArray], *, weights: WeightSet = "policy") -> list[FloatArray]:
        """Log-probabilities float32 [l-1] of tokens 1.. given what stands before, temperature 1, no cache involved."""
        decoder = self._serving(weights).decoder
        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
        scores: dict[int, FloatArray] = {}
        lengths = [len(sequences[i]) for i in order]
        for chunk in chunks(lengths, SCORE_TOKENS):
            members = [order[i] for i in chunk]
            batch = padded([sequences[i] for i in members], max(2, lengths[chunk[-1]])).to(decoder.device)
            for i, row in zip(members, decoder.score(batch).cpu().numpy()):
                scores[i] = np.array(row[: max(0, len(sequences[i]) - 1)], np.float32)
        return [scores[i] for i in range(len(sequences))]

    @torch.inference_mode()
    def reset(self, lineage: int) -> None:
        """Drop every sequence, every cache and the pinned set, and take requests of ``lineage`` from now on.

        The policy weights stay until the lineage's own arrive.
        """
        for lane in self._lanes():
            lane.clear()
        self._pinned = None
        self.pinned_version = None
        self._lane_of.clear()
        self._lineage = lineage

    def _lanes(self) -> list[Lane]:
        return [self._policy] if self._pinned is None else [self._policy, self._pinned]

    def _serving(self, weights: str) -> Lane:
        if weights == "policy":
            return self._policy
        if self._pinned is None:
            raise DataError("nothing is pinned yet: call pin() before asking for the pinned weights")
        return self._pinned

    def _lane(self, decoder: Decoder) -> Lane:
        return Lane(decoder, num_slots=self.num_slots, max_len=self.max_len, deterministic=self.batch_invariant)


def _context(config: Any, max_len: int | None) -> int:
    """Longest sequence to serve: what is asked for, bounded by the model."""
    limit: int | None = getattr(config, "max_position_embeddings", None)
    if max_len is None:
        if limit is None:
            raise DataError(f"model type {config.model_type!r} names no longest context: pass max_len")
        return limit
    if limit is not None and max_len > limit:
        raise DataError(f"max_len is {max_len}, but the model's context holds {limit} tokens")
    return max_len


def _decoder_for(model: Any, fast_forward: bool | None) -> Decoder:
    reason = why_not(model)
    if fast_forward and reason:
        raise DataError(f"fast_forward is on, but there is no fused forward for {reason}")
    return ModuleDecoder(model) if reason or fast_forward is False else fuse(model)
