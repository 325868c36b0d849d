"""The control plane: what agents report to, what watches runs, and what people look at."""
