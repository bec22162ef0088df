"""What a container may reach: the policy, and the proxy that enforces it."""
