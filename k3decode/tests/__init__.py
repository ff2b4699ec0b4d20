"""Tests of k3decode. A package, because this folder is named like the import package."""
