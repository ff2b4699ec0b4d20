"""Real servers on loopback for tests: PostgreSQL and S3-compatible stores."""
