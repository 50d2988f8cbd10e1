#!/usr/bin/env bash
# usage: venv.sh DIR REQUIREMENTS
# A Python environment in DIR that holds exactly the pinned REQUIREMENTS.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$1 requirements=$2
"$here/need.sh" python3 python3-venv python3 -c 'import ensurepip, venv'
python3 -m venv --clear "$dir"
"$dir/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
