import pytest

from k3decode.host.cubin import CubinError, kernel_usages


def test_bytes_that_are_no_image_are_refused() -> None:
    with pytest.raises(CubinError, match="expected a 64-bit ELF image, found the bytes b'PTX, '"):
        kernel_usages(b"PTX, not machine code")
