# mypy: ignore-errors
# Device code that branches at compile time.
"""Words that ranks leave in each other's memory, and the waiting for them.

A word of all ones is one that has not arrived. Nothing sends it: two BF16 values, or one FP32, with
that pattern are NaN, and NaN of another pattern is sent instead. So a word is its own flag, and
nothing is ordered by fences. Whoever takes words puts all ones back. Waiting ends when an error
is set or the deadline is over; what is missing stays NaN.
"""

from cutlass import Float32, Int32, Int64, cute

__all__ = [
    "SLOT_BITS",
    "VECTOR_BYTES",
    "WORDS",
    "floats_of",
    "load_words",
    "own_words",
    "pack_words",
    "send_words",
    "sendable",
    "settled",
]

WORDS = 4
"""Words of one access."""

VECTOR_BYTES = 16
"""Bytes of one access."""

SLOT_BITS = 16
"""Place of the slot's number in a code of errors."""

_MISSING = -1
# Two BF16 NaN, and one of FP32.
_OTHER_NAN = 0x7FFF7FFF
_HIGH_HALF = -65536
_HALF_BITS = 16


def load_words(address: Int64) -> tuple:
    """Four words as they are now in memory that other ranks write."""
    return cute.arch.inline_ptx(
        "ld.relaxed.sys.global.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];",
        write_only_types=[Int32] * WORDS,
        read_only_args=[address],
    )


def send_words(address: Int64, words: list) -> None:
    """Leave four words in the memory of a rank."""
    cute.arch.inline_ptx(
        "st.relaxed.sys.global.v4.b32 [{$r0}], {{$r1}, {$r2}, {$r3}, {$r4}};",
        read_only_args=[address, *words],
    )


def own_words(address: Int64) -> tuple:
    """Four words that this rank's kernel in front has written; see `sendable`."""
    return cute.arch.inline_ptx(
        "ld.global.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];",
        write_only_types=[Int32] * WORDS,
        read_only_args=[address],
    )


def sendable(words: tuple) -> list:
    """Words as they may be sent: none of them looks as if it had not arrived."""
    return [
        cute.arch.inline_ptx(
            "{ .reg .pred p; setp.eq.s32 p, {$r0}, "
            f"{_MISSING}; selp.b32 {{$w0}}, {_OTHER_NAN}, {{$r0}}, p; }}",
            write_only_types=[Int32],
            read_only_args=[word],
        )
        for word in words
    ]


def _some_missing(words: tuple) -> Int32:
    """1 if a word has not arrived, else 0."""
    return cute.arch.inline_ptx(
        f"{{ .reg .pred p; setp.eq.s32 p, {{$r0}}, {_MISSING}; "
        f"setp.eq.or.s32 p, {{$r1}}, {_MISSING}, p; "
        f"setp.eq.or.s32 p, {{$r2}}, {_MISSING}, p; "
        f"setp.eq.or.s32 p, {{$r3}}, {_MISSING}, p; "
        "selp.s32 {$w0}, 1, 0, p; }",
        write_only_types=[Int32],
        read_only_args=list(words),
    )


def _gave_up(error: Int64) -> Int32:
    """1 if anybody has set the error word."""
    return cute.arch.inline_ptx(
        "{ .reg .pred p; .reg .b64 found; ld.relaxed.sys.global.b64 found, [{$r0}]; "
        "setp.ne.s64 p, found, 0; selp.s32 {$w0}, 1, 0, p; }",
        write_only_types=[Int32],
        read_only_args=[error],
    )


def _give_up(error: Int64, code: Int64) -> None:
    """Set the error word, unless it is set."""
    cute.arch.inline_ptx(
        "{ .reg .b64 before; atom.relaxed.sys.global.cas.b64 before, [{$r0}], 0, {$r1}; }",
        read_only_args=[error, code],
    )


@cute.jit
def settled(
    words: tuple, address: Int64, wanted: Int32, error: Int64, code: Int64, deadline: Int64
):
    """Four words once all have arrived; their place is free again then.

    Args:
        words: what `load_words` found there.
        address: their place in this rank's mailbox, of which this thread alone takes care.
        wanted: 0 to take them as they are and leave the place alone.
        error: address of the error word, 0 as long as nobody has given up.
        code: what it is set to.
        deadline: cycles after which to give up.
    """
    w0, w1, w2, w3 = words
    missing = _some_missing((w0, w1, w2, w3)) & wanted
    if missing != 0:
        start = cute.arch.clock64()
        while missing != 0:
            w0, w1, w2, w3 = load_words(address)
            missing = _some_missing((w0, w1, w2, w3))
            if missing != 0:
                if cute.arch.clock64() - start > deadline:
                    _give_up(error, code)
                missing = missing & (1 - _gave_up(error))
    if wanted != 0:
        send_words(address, [Int32(_MISSING)] * WORDS)
    return w0, w1, w2, w3


@cute.jit
def floats_of(words: tuple):
    """Eight BF16 values of four words as FP32."""
    found = []
    for word in words:
        found += [(word << _HALF_BITS).bitcast(Float32), (word & _HIGH_HALF).bitcast(Float32)]
    return found


def pack_words(values: list) -> list:
    """Eight FP32 values, rounded to BF16, as four words."""
    return [
        cute.arch.inline_ptx(
            "cvt.rn.bf16x2.f32 {$w0}, {$r0}, {$r1};",
            write_only_types=[Int32],
            read_only_args=[values[i + 1], values[i]],
        )
        for i in range(0, len(values), 2)
    ]
