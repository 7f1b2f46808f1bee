"""What all tests share: how Hypothesis runs here."""

from hypothesis import settings

# A failure prints what replays it. There is no deadline: builds share their machine with others.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")
