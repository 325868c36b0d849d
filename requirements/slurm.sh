#!/bin/sh
# Install Debian's Slurm for the tests of the Slurm adapter where that is possible. Elsewhere those
# tests are skipped, and the end of the test run says so. Nothing is configured or left running.
set -u

packages="slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
PATH=$PATH:/usr/sbin:/sbin
complete=yes
for name in slurmctld slurmd sbatch munged; do
    command -v "$name" >/dev/null 2>&1 || complete=no
done
[ "$complete" = yes ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Slurm is missing and cannot be installed from here; its tests will be skipped."
    exit 0
fi
echo "Installing Slurm for its tests (once)…"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
# shellcheck disable=SC2086 (a list of packages)
if { apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages; } >"$log" 2>&1; then
    rm -f "$log"
else
    echo "Slurm could not be installed ($log says why); its tests will be skipped."
fi
exit 0
