#!/usr/bin/env bash
# Copies Apache Kafka's jars into ${SILTSTONE_CACHE:-.cache}/kafka-jars, once per version of pom.xml.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SILTSTONE_CACHE:-$here/../../.cache}
jars=$cache/kafka-jars
stamp=$jars/.pom.sha256
want=$(sha256sum <"$here/pom.xml")

if [[ -f $stamp && $(<"$stamp") == "$want" ]]; then
  exit 0
fi
if ! command -v mvn >/dev/null; then
  echo "jars.sh: Maven is not installed (Debian: apt-get install maven); Kafka's jars are not copied" >&2
  exit 1
fi
rm -rf "$jars.partial"
mkdir -p "$jars.partial"
mvn --batch-mode --quiet --file "$here/pom.xml" dependency:copy-dependencies \
  -DincludeScope=runtime -DoutputDirectory="$(cd "$jars.partial" && pwd)"
printf '%s\n' "$want" >"$jars.partial/.pom.sha256"
rm -rf "$jars"
mv "$jars.partial" "$jars"
echo "jars.sh: $(find "$jars" -name '*.jar' | wc -l) jars in $jars"
