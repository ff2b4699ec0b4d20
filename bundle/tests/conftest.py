"""Settings for all tests of the package."""

from hypothesis import settings

# A busy machine is not a failure: what must be fast is timed by its own test.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
