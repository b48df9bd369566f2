package simulate

import "time"

const (
	maxShrink = 60 // histories
	replays   = 3
)

// shrink runs a plan, and if it fails looks for a smaller one that fails in the same way.
func (k *worker) shrink(of task) {
	text := of.Plan
	p, err := parsePlan(text)
	if err != nil {
		say(report{Failure: &failure{"the world", err.Error()}})
		return
	}
	say(report{Plan: text, Begin: true})
	k.live = true
	out := k.history(p)
	if out.Failure == nil || of.Once {
		say(report{Plan: text, Failure: out.Failure, Story: out.Story, Faults: out.Faults})
		return
	}
	began, tried := time.Now(), 0
	for smaller := true; smaller; {
		smaller = false
		for q := range p.smaller {
			if tried++; tried > maxShrink || time.Since(began) > time.Minute {
				break
			}
			if o := k.history(q); o.Failure != nil && o.Failure.Oracle == out.Failure.Oracle {
				p, out, smaller = q, o, true
				break
			}
		}
	}
	exact := 0
	for range replays {
		if again := k.bubble(p, 0); again.Digest == out.Digest {
			exact++
		}
	}
	say(report{Plan: p.String(), Failure: out.Failure, Story: out.Story, Digest: out.Digest, Exact: exact, Replays: replays, Faults: out.Faults})
}
