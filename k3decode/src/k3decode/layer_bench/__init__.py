"""Time of a whole decoder layer on a GPU, beside the bytes that it must move."""
