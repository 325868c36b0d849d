"""Event vocabulary and codec that agents and control plane share (wire version 1)."""

WIRE_VERSION = 1
