"""Agents' access to language models: the gateway, its ledger, budgets and recordings.

API keys stay on the host. An agent reaches the gateway on ``localhost``, and has its run's token instead of each key.
"""
