"""Sequences of tokens as the program's model is fed with them: at once, or in chunks that share a cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from conformance.language.arithmetic import Array
from conformance.language.evaluate import Reading
from conformance.language.tensors import Named
from trust.mapping import Subject, array, named


@dataclass(frozen=True)
class Sequences:
    """A batch of token sequences, with whatever else a model is called with."""

    tokens: Array
    attention_mask: Array | None = None
    positions: Array | None = None
    source: Array | None = None

    @property
    def length(self) -> int:
        """Tokens in each sequence, padding included."""
        return int(self.tokens.shape[1])

    def between(self, start: int, stop: int) -> Sequences:
        """The arguments of one call in a series: new tokens only, but a mask of all so far."""
        return Sequences(
            self.tokens[:, start:stop],
            None if self.attention_mask is None else self.attention_mask[:, :stop],
            None if self.positions is None else self.positions[..., start:stop],
            self.source,
        )

    def named(self) -> dict[str, Named[Array]]:
        """As the program's function `model` takes them."""
        found = {"tokens": named("batch query", self.tokens)}
        if self.attention_mask is not None:
            found["attention_mask"] = named("batch key", self.attention_mask)
        if self.positions is not None:
            found["positions"] = named("query" if self.positions.ndim == 1 else "batch query", self.positions)
        if self.source is not None:
            found["source"] = named("batch source", self.source)
        return found


def random_tokens(vocabulary: int, batch: int, length: int, seed: int) -> Array:
    """Token ids, uniform."""
    return np.random.default_rng(seed).integers(vocabulary, size=(batch, length))


def left_padding(padding: Sequence[int], length: int) -> Array:
    """An attention mask in which sequence b starts with `padding[b]` tokens that are none."""
    return np.arange(length) >= np.asarray(padding)[:, None]


def compositions(total: int) -> list[tuple[int, ...]]:
    """Every way to cut a sequence into chunks: 2 ** (total - 1) of them."""
    if total == 0:
        return [()]
    return [(first, *rest) for first in range(1, total + 1) for rest in compositions(total - first)]


def spans(schedule: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and stop of each chunk."""
    return pairwise([0, *np.cumsum(schedule).tolist()])


def step(reading: Reading[Array], sequences: Sequences) -> Array:
    """The logits of one call; the reading remembers it."""
    return array(reading.call("model", sequences.named()), "batch query vocab")


def logits(subject: Subject, sequences: Sequences, schedule: Sequence[int] = ()) -> Array:
    """The program's logits for all tokens, which it sees in chunks of these sizes (none: all at once)."""
    reading = subject.reading()
    chunks = [step(reading, sequences.between(*span)) for span in spans(schedule or [sequences.length])]
    assert set(reading.declared) == set(subject.parameters)
    return np.concatenate(chunks, axis=1)
