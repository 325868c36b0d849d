"""Live updates of open pages: topics, publishing after commit, the socket and the resync."""
