#!/usr/bin/env bash
set -euo pipefail
here=$(dirname "$0")
"$here/../../lib/venv.sh" "$2" "$here/requirements.txt"
