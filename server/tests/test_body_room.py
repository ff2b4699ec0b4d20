from contextlib import ExitStack

from k3server.body_room import BodyRoom


def test_pieces_shrink_as_bodies_become_more_and_grow_again() -> None:
    room = BodyRoom()
    found = []
    with ExitStack() as bodies:
        for _ in range(200):
            bodies.enter_context(room.body())
            found.append(room.piece_bytes)
    assert (found[0], found[15], found[-1]) == (512 * 1024, 128 * 1024, 16 * 1024)
    assert room.piece_bytes == 512 * 1024
