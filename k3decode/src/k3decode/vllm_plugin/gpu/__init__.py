"""The GPU's decode path inside unmodified vLLM 0.33.0: K3's text model with our launches."""
