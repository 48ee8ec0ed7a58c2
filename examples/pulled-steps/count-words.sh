#!/bin/sh
# A pulled step in plain curl: counts the words of each document that waits for "pull:words".
# Needs FAIRLEAD_URL and FAIRLEAD_KEY, a worker's key: fairlead keys add --worker words
set -eu

request() {
    curl --silent --show-error --fail-with-body -H "Authorization: Bearer $FAIRLEAD_KEY" "$@"
}

# Ends when nothing waits; a service would ask for ever.
while :; do
    jobs=$(request --json '{"steps": ["words"], "wait": 1}' "$FAIRLEAD_URL/v1/jobs/claim")
    token=$(printf '%s' "$jobs" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
    [ -n "$token" ] || exit 0
    job="$FAIRLEAD_URL/v1/jobs/$token"
    text=$(request "$job/text")
    words=$(printf '%s' "$text" | wc -w)
    if [ "$words" -eq 0 ]; then
        request --json '{"code": "no-words", "detail": "The document has no words."}' "$job/refuse"
        continue
    fi
    # A job that takes longer than its lease is renewed meanwhile: request -X POST "$job/renew"
    printf '%s' "$text" | request -F "data={\"words\": $words}" -F "file=@-;filename=text.txt" "$job/finish"
done
