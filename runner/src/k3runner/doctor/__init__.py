"""What this machine has and lacks: small probes, and a pure judgement of what they found."""
