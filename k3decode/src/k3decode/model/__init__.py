"""K3's layers composed from the op references: checkpoint names, weights, skeleton, decoder."""
