"""The load client: server-sent events, strict outcomes, a closed loop of streams."""
