#!/bin/sh
# Install Debian's Chromium for the browser tests where that is possible. Elsewhere those tests are
# skipped, and the end of the test run says so.
set -u

for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Chromium is missing and cannot be installed from here; browser tests will be skipped."
    exit 0
fi
echo "Installing Chromium for the browser tests (once)…"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
if { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >"$log" 2>&1; then
    rm -f "$log"
else
    echo "Chromium could not be installed ($log says why); browser tests will be skipped."
fi
exit 0
