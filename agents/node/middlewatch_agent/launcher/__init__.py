"""The launcher: an agent on the head node that starts, stops and reports attempts.

`service.attach(context)` is all that the agent calls. Nothing is imported here: ranks of
a batch job come through this package on their way, and each of them would pay for it.
"""
