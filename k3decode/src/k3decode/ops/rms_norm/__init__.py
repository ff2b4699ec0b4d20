"""The op `rms_norm`: root-mean-square normalisation. Reference only; no kernel yet."""
