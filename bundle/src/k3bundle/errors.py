"""Errors of this package. Each carries its findings and can be shown to a person as it is."""

from k3bundle.finding import Finding

__all__ = ["BundleError"]


class BundleError(Exception):
    """A bundle cannot be read, sealed or signed."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("; ".join(f"{f.where}: {f.why}" for f in findings))
        self.findings = findings

    def diagnostics(self) -> str:
        """The findings as text, one per line, each with its next step."""
        return "\n".join(f"{f.where}: {f.why} {f.hint}" for f in self.findings)
