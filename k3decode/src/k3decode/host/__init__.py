"""What launches share on the host: input checks, compilation, the stream."""
