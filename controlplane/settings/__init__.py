"""How the control plane is configured: read `env` for what an installation may set."""
