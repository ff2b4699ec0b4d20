"""Who does what: how teams of warps share the tiles of the first matrix.

Pure arithmetic on integers, the host's or the device's alike. The tiles of the chosen experts stand
in a line, expert after expert, which is cut into equal stretches.
"""

__all__ = ["begins_stretch", "first_of_share", "may_begin_stretch"]


def first_of_share(total: int, parts: int, part: int) -> int:
    """First of `total` things that a part has; the first of the next part is its end."""
    return part * total // parts


def begins_stretch(chunk: int, ahead: int, chunks: int) -> bool:
    """Whether the chunk `ahead` of one begins a stretch, where stretches have so many chunks."""
    return (chunk + ahead) % chunks == 0


def may_begin_stretch(chunk: int, ahead: int, chunks: int, following: int) -> bool:
    """Whether the chunk `ahead` of one of a stretch of `chunks` may begin another.

    Behind it come stretches of as many chunks, and behind the last of them those of `following`.
    """
    beyond = chunk + ahead - chunks
    return any((beyond - before) % following == 0 for before in range(0, beyond + 1, chunks))
