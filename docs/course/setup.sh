#!/usr/bin/env bash
# Gradescope calls this once, when the autograder is built. What a submission imports is installed here as well.
set -eu
apt-get update
apt-get install -y --no-install-recommends python3 python3-pip python3-venv
pip install transformer-conformance
