"""The device code of `experts` for Blackwell: bulk copies, tensor memory and its matrix unit."""
