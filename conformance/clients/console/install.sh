#!/usr/bin/env bash
set -euo pipefail
lib=$(dirname "$0")/../../lib
"$lib/need.sh" java default-jre-headless
"$lib/jars.sh" >/dev/null
