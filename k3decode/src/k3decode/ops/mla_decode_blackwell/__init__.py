"""The device code of `mla_decode` for Blackwell: tensor memory and its matrix unit."""
