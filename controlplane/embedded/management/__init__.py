"""Commands that bring a control plane up."""
