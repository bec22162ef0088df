from hypothesis import settings

# A deadline for an example measures the machine, not the code.
settings.register_profile("mlebench", deadline=None)
settings.load_profile("mlebench")
