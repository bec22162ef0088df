"""What agents ask: the gateway to language models, its ledger, budgets and recordings.

Keys stay on the host. An agent finds the gateway on ``localhost`` and has a token of its run in place of each key.
"""
