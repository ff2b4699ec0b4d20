"""The barriers of Blackwell's attention kernel as processes that any scheduler may order.

Roles wait and arrive as those of the device code do; copies end whenever they like, products one
after the other. Everything that is read says whose it must be, so a barrier that passes too early
is an error, and so is a state in which nobody can go on.
"""

import random
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from functools import partial

from k3decode.ops.mla_decode_blackwell.config import MlaDecodeBlackwellConfig

__all__ = ["Cta", "Mistake", "ProtocolError"]

Role = Generator[tuple["Barrier", int], None, None]
Mistake = str


class ProtocolError(AssertionError):
    """Something was read or overwritten at the wrong time, or nobody can go on."""


@dataclass
class Barrier:
    """An mbarrier for one arrival."""

    phase: int = 0

    def arrive(self) -> None:
        self.phase += 1

    def passes(self, parity: int) -> bool:
        """Whether the phase of this parity is over: the current one is of the other."""
        return self.phase % 2 != parity


@dataclass
class Place:
    """Memory for one thing at a time."""

    name: str
    reads_each: int
    """How often each content is read before another may come."""
    content: object = None
    left: int = 0

    def write(self, content: object) -> None:
        if self.left:
            raise ProtocolError(f"{self.name}: {content} overwrites {self.content} too early")
        self.content, self.left = content, self.reads_each

    def read(self, expected: object) -> None:
        if self.content != expected or not self.left:
            raise ProtocolError(f"{self.name}: expected {expected}, found {self.content}")
        self.left -= 1


@dataclass
class Cta:
    """One CTA with pieces of so many tiles each."""

    config: MlaDecodeBlackwellConfig
    pieces: list[int]
    seed: int
    mistake: Mistake | None = None
    copies: list[Callable[[], None]] = field(default_factory=list)
    products: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        c = self.config
        self.latents = [Place(f"latents {i}", 2) for i in range(c.latent_slots)]
        self.shared = [Place(f"shared columns {i}", 1) for i in range(c.shared_slots)]
        self.scores = [Place(f"scores {i}", 1) for i in range(c.score_sets)]
        self.shares = Place("shares", 1)
        self.summed = 0
        self.written_pieces = 0
        self.query: int | None = None
        self.scores_of_query = 0

        def barriers(count: int) -> list[Barrier]:
            return [Barrier() for _ in range(count)]

        self.latent_full, self.latent_empty = barriers(c.latent_slots), barriers(c.latent_slots)
        self.shared_full, self.shared_empty = barriers(c.shared_slots), barriers(c.shared_slots)
        self.score_full = barriers(c.score_sets)
        self.query_full, self.query_empty = Barrier(), Barrier()
        self.share_full, self.value_done = Barrier(), Barrier()

    def tiles(self) -> Iterable[tuple[int, int, int]]:
        """Piece, first tile and the one behind the last."""
        first = 0
        for piece, count in enumerate(self.pieces):
            yield piece, first, first + count
            first += count

    def run(self) -> None:
        """Let everything happen in some order."""
        # Reproducible orders, no secret.
        chance = random.Random(self.seed)  # noqa: S311
        roles = [self._copy(), self._ask(), self._multiply(), self._weigh()]
        waiting = {role: next(role) for role in roles}
        while waiting or self.copies or self.products:
            ready: list[Callable[[], None]] = [self._end_of_copy(chance)] if self.copies else []
            if self.products:
                ready.append(self.products.pop(0)) if chance.random() < 0.5 else None
            able = [role for role, (barrier, parity) in waiting.items() if barrier.passes(parity)]
            if not ready and not able and not self.products:
                raise ProtocolError("nobody can go on")
            for action in ready:
                action()
            if able:
                role = chance.choice(able)
                try:
                    waiting[role] = next(role)
                except StopIteration:
                    del waiting[role]
        if self.written_pieces != len(self.pieces):
            raise ProtocolError("a piece was not written")

    def _end_of_copy(self, chance: random.Random) -> Callable[[], None]:
        if chance.random() < 0.5:
            return lambda: None
        return self.copies.pop(chance.randrange(len(self.copies)))

    def _bring(self, place: Place, content: object, full: Barrier) -> None:
        def end() -> None:
            full.arrive()

        place.write(content)
        self.copies.append(end)

    def _copy(self) -> Role:
        c = self.config
        slot = phase = shared_slot = shared_phase = 0
        for _, first, stop in self.tiles():
            for tile in range(first, stop):
                for unit in range(c.units):
                    if self.mistake != "copies do not wait":
                        yield self.latent_empty[slot], phase ^ 1
                    self._bring(self.latents[slot], (tile, unit), self.latent_full[slot])
                    slot, phase = _advanced(slot, phase, c.latent_slots)
                yield self.shared_empty[shared_slot], shared_phase ^ 1
                self._bring(self.shared[shared_slot], tile, self.shared_full[shared_slot])
                shared_slot, shared_phase = _advanced(shared_slot, shared_phase, c.shared_slots)

    def _ask(self) -> Role:
        phase = 0
        for piece, first, stop in self.tiles():
            yield self.query_empty, phase ^ 1
            if self.scores_of_query:
                raise ProtocolError(f"queries of {piece} overwrite those of {self.query} too early")
            self.query, self.scores_of_query = piece, stop - first
            self.query_full.arrive()
            phase ^= 1

    def _multiply(self) -> Role:
        ring = {"latent": (0, 0), "shared": (0, 0)}
        slots = {"value": 0}
        phase = 0
        for piece, first, stop in self.tiles():
            yield self.query_full, phase
            phase ^= 1
            if self.config.ahead:
                yield from self._score(ring, piece, first, first + 1 == stop)
            for tile in range(first, stop):
                if self.config.ahead:
                    if tile + 1 < stop:
                        yield from self._score(ring, piece, tile + 1, tile + 2 == stop)
                else:
                    yield from self._score(ring, piece, tile, tile + 1 == stop)
                yield from self._sum(slots, piece, tile, tile == first)

    def _score(self, ring: dict[str, tuple[int, int]], piece: int, tile: int, final: bool) -> Role:
        c = self.config
        for unit in range(c.units):
            slot, phase = ring["latent"]
            yield self.latent_full[slot], phase
            self.products.append(partial(self.latents[slot].read, (tile, unit)))
            ring["latent"] = _advanced(slot, phase, c.latent_slots)
        slot, phase = ring["shared"]
        yield self.shared_full[slot], phase
        at = tile % c.score_sets

        def end() -> None:
            self.shared[slot].read(tile)
            if self.query != piece or not self.scores_of_query:
                raise ProtocolError(f"scores of {piece} with queries of {self.query}")
            self.scores_of_query -= 1
            self.scores[at].write(tile)
            self.shared_empty[slot].arrive()
            self.score_full[at].arrive()
            if final or self.mistake == "queries end early":
                self.query_empty.arrive()

        self.products.append(end)
        ring["shared"] = _advanced(slot, phase, c.shared_slots)

    def _sum(self, slots: dict[str, int], piece: int, tile: int, starts: bool) -> Role:
        c = self.config
        yield self.share_full, tile % 2
        if starts and self.written_pieces != piece:
            raise ProtocolError(f"sums of {piece} begin before the last ones were written")
        for unit in range(c.units):
            slot = slots["value"]

            def end(slot: int = slot, unit: int = unit) -> None:
                self.latents[slot].read((tile, unit))
                self.latent_empty[slot].arrive()

            self.products.append(end)
            slots["value"] = (slot + 1) % c.latent_slots

        def done() -> None:
            self.shares.read(tile)
            self.summed = tile + 1
            self.value_done.arrive()

        self.products.append(done)

    def _weigh(self) -> Role:
        c = self.config
        for _, first, stop in self.tiles():
            for tile in range(first, stop):
                at = tile % c.score_sets
                yield self.score_full[at], tile // c.score_sets % 2
                if tile > 0 and self.mistake != "shares do not wait":
                    yield self.value_done, (tile - 1) % 2
                if self.mistake != "shares do not wait" and self.summed != tile:
                    raise ProtocolError(f"sums of {self.summed} tiles are scaled at tile {tile}")
                self.scores[at].read(tile)
                self.shares.write(tile)
                self.share_full.arrive()
            if self.mistake != "sums are written at once":
                yield self.value_done, (stop - 1) % 2
            if self.summed != stop:
                raise ProtocolError(f"sums of {self.summed} tiles are written, not of {stop}")
            self.written_pieces += 1


def _advanced(slot: int, phase: int, slots: int) -> tuple[int, int]:
    return (0, phase ^ 1) if slot + 1 == slots else (slot + 1, phase)
