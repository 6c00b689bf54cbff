#!/bin/sh
# A robot that is a shell: sh bidder.sh NAME COST. What the task says about NAME
# is how it behaves.
name=$1 cost=$2
broker="-h 127.0.0.1 -p $PORT -q 1"
topic=robots/$name/turns

get() { printf '%s' "$m" | jq -r "$1"; }
raw() { mosquitto_pub $broker -t "$topic/reply" -m "$1"; }
say() { raw "{\"kind\": \"$1\", \"id\": \"$(get .id)\", $2}"; }

stdbuf -oL mosquitto_sub $broker -t "$topic" | while read -r m; do
	case $(get .kind)/$(get ".task.$name // \"fine\"") in
	cfp/refuses) say refuse '"reason": "battery"' ;;
	cfp/late) sleep 4; say propose '"answer": {"cost": 1, "eta_s": 1}' ;;
	cfp/text) raw "I would do it for 5" ;;
	cfp/broken) raw '{"kind": "propose", "id": ' ;;
	cfp/formless) say propose '"answer": {"cost": "little"}' ;;
	cfp/silent) ;;
	cfp/*) say propose "\"answer\": {\"cost\": $cost, \"eta_s\": 60}" ;;
	request/fails) say failure '"reason": "wheel"' ;;
	request/dies) ;;
	request/*) say inform "\"answer\": {\"draft\": \"$name was there\"}" ;;
	esac
done
