"""What to do with a step: facts, plan, start-up rules and counters. Pure; no tensors here."""
