"""Node agent and training hooks of Middlewatch."""

__version__ = "0.1.0"
