"""What pages show, computed from records before any template sees it. Pure."""
