"""The record format of k3-eval: records, archive, signature, verifier. See bundle/README.md."""
