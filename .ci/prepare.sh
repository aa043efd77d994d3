# Sourced by `run` and `nightly`: a copy of the checkout without what git ignores, and what tests
# expect around it.
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scratch=$(mktemp -d)
background= # process ids
# shellcheck disable=SC2086
trap '[ -z "$background" ] || kill $background 2>/dev/null || true; rm -rf "$scratch"' EXIT

export CI=true # a skipped browser test is a failure
export OMP_NUM_THREADS=1
unset PYTHONDONTWRITEBYTECODE # the tests start hundreds of processes
export BANDGAP_HOME="$scratch/home"
export BANDGAP_SCREENSHOTS="${BANDGAP_SCREENSHOTS:-$checkout/artifacts/screenshots}"
if [ -z "${BANDGAP_TEST_DATA:-}" ] && [ -d "$checkout/../shared/data" ]; then
    BANDGAP_TEST_DATA=$(cd "$checkout/../shared/data" && pwd)
    export BANDGAP_TEST_DATA
fi

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

install() { # a package of Debian
    if ! command -v "$1" >/dev/null; then
        as_root=$([ "$(id -u)" = 0 ] || echo sudo)
        $as_root apt-get update -qq
        $as_root apt-get install -y -qq --no-install-recommends "$1" >/dev/null
    fi
}

mkdir "$scratch/checkout"
cd "$checkout"
tar -c --exclude=./.git --exclude-from=<(sed 's,/$,,' .gitignore) . | tar -x -C "$scratch/checkout"
cd "$scratch/checkout"
