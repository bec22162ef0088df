import signal

from hypothesis import settings

# A deadline for an example measures the machine, not the code.
settings.register_profile("mlebench", deadline=None)
settings.load_profile("mlebench")

# A shell's background job ignores Ctrl-C, and so would all processes that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
