"""Detectors: they judge from signals and never act."""
