"""Notice when the processes of training ranks start and how they end."""
