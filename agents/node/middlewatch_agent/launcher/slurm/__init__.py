"""The Slurm adapter: attempts as batch jobs, through Slurm's own command-line tools.

Slurm keeps the truth about its jobs, so the adapter remembers only what it meant to do
and finds its jobs by a mark in their comment. It never asks Slurm to requeue a job: the
next attempt is a new job, so no hold-off and no revoked credential stands in its way.
"""
