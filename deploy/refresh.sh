#!/bin/sh
# The regular work for one service: refresh.sh nightly|weekly|monthly FOLDER
# FOLDER holds panel/, runs/ and incoming/. docs/guides/production.md explains it.
set -eu
cd "$2"
mkdir -p incoming done refused
exec 9> .refresh.lock
flock -n 9 || { echo "another refresh is at work in $2" >&2; exit 75; }

# Move a delivery to a folder, under another name if its own is taken there, and say so.
put() {
    name=${1#incoming/}
    target=$2/$name
    number=2
    while [ -e "$target" ]; do
        target=$2/$number-$name
        number=$((number + 1))
    done
    mv "$1" "$target"
    echo "$name: $target"
}

case $1 in
nightly) # append what has come; a delivery that does not fit is put aside
    refused=0
    for file in incoming/*; do
        case $file in *.part | *.tmp) continue ;; esac # still being written
        [ -f "$file" ] || continue
        code=0
        forecaster append panel "$file" || code=$?
        case $code in
        0) put "$file" done ;;
        2 | 3) put "$file" refused && refused=1 ;; # the data is wrong; it stays so
        *) exit "$code" ;;                         # try again the next night
        esac
    done
    exit $refused
    ;;
weekly) # is the model still right? train a challenger, and promote it if it is better
    forecaster drift runs --panel panel --out drift ||
        echo "drift could not judge (exit code $?); the update goes on without it" >&2
    forecaster update runs --panel panel
    ;;
monthly) # verify every file, and remove what was never finished and old versions of the panel
    forecaster check panel --prune
    forecaster check runs
    ;;
*)
    echo "$1: nightly, weekly or monthly is needed" >&2
    exit 2
    ;;
esac
