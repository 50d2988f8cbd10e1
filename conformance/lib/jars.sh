#!/usr/bin/env bash
# Prints the class path of Apache Kafka 3.7.2's jars, copying them by Maven the first time.
# They live in ${XDG_CACHE_HOME:-$HOME/.cache}/kaas/jars; delete that folder to copy them afresh.
set -euo pipefail

pom="$(cd "$(dirname "${BASH_SOURCE[0]}")/../java" && pwd)/pom.xml"
jars="${XDG_CACHE_HOME:-$HOME/.cache}/kaas/jars"
stamp="$jars/.complete-$(sha256sum "$pom" | cut -c1-16)"

if [ ! -e "$stamp" ]; then
  mkdir -p "$jars"
  exec 9>"$jars/.lock"
  flock 9 # two runners may start at once: the second waits and finds the jars
  if [ ! -e "$stamp" ]; then
    rm -f "$jars"/*.jar "$jars"/.complete-*
    mvn -B -q -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
      -DoutputDirectory="$jars" -DincludeScope=runtime >&2
    touch "$stamp"
  fi
fi

printf '%s\n' "$jars"/*.jar | paste -sd:
