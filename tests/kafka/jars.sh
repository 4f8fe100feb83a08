#!/usr/bin/env bash
# Copies what a pom.xml names into ${SILTSTONE_CACHE:-.cache}/NAME, once per version of the file:
#
#   jars.sh                            Apache Kafka's jars, into kafka-4.4.0
#   jars.sh FOLDER_OF_POM NAME         others
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pom=$(cd "${1:-$here}" && pwd)/pom.xml
name=${2:-kafka-4.4.0}
cache=${SILTSTONE_CACHE:-$here/../../.cache}
jars=$cache/$name
stamp=$jars/.pom.sha256
want=$(sha256sum <"$pom")

mkdir -p "$cache"
exec 9>"$cache/$name.lock"
flock 9 # tests run side by side
if [[ -f $stamp && $(<"$stamp") == "$want" ]]; then
  exit 0
fi
if ! command -v mvn >/dev/null; then
  echo "jars.sh: Maven is not installed (Debian: apt-get install maven); $name are not copied" >&2
  exit 1
fi
rm -rf "$jars.partial"
mkdir -p "$jars.partial"
mvn --batch-mode --quiet --file "$pom" dependency:copy-dependencies \
  -DincludeScope=runtime -DoutputDirectory="$(cd "$jars.partial" && pwd)"
printf '%s\n' "$want" >"$jars.partial/.pom.sha256"
rm -rf "$jars"
mv "$jars.partial" "$jars"
echo "jars.sh: $(find "$jars" -name '*.jar' | wc -l) jars in $jars"
