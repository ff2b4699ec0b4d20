"""The device code of `mla_decode` for Hopper where a request has several rows."""
