"""`python -m middlewatch_agent` is `middlewatch-agent`."""

import sys

from middlewatch_agent.cli import main

sys.exit(main())
