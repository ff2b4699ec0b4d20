"""The referee: plans an evaluation, runs it, judges it, seals and submits the evidence."""
