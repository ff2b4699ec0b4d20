"""Commands of `k3-registry`: flags in, words out."""
