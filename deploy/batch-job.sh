#!/bin/sh
# medsanitize for schedulers that take every exit code but 0 for a failure: 1 (done, some objects are in
# quarantine, return.json says how many) becomes 0, every other code stays. What asks a run to stop is handed on
# as SIGTERM, and waited for.
set -u

child='' early=''
trap 'if [ -n "$child" ]; then kill -TERM "$child" 2>/dev/null; else early=1; fi' TERM INT HUP XCPU
medsanitize "$@" &
child=$!
if [ -n "$early" ]; then kill -TERM "$child" 2>/dev/null; fi

wait "$child"
code=$?
while [ "$code" -gt 128 ]; do # by a signal: was it the wait that ended, or the child?
  wait "$child"
  again=$?
  if [ "$again" -eq 127 ]; then break; fi
  if [ "$again" -eq "$code" ] && ! kill -0 "$child" 2>/dev/null; then break; fi
  code=$again
done

if [ "$code" -eq 1 ]; then code=0; fi
exit "$code"
