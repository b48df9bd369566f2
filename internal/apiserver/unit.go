package apiserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/wire"
)

// A UnitEffect is what a fault does at one unit of an answer, before the unit is sent. It runs in
// the goroutine of the answer. At the [Start], and by [Server.Interrupt], there is no unit: effects
// that drop or change one then do nothing.
type UnitEffect func(a *answer, u *Unit) error

// Cut ends the answer before the unit: a stream cleanly, a list in the middle of its JSON.
func Cut(*answer, *Unit) error { return endCut }

// Break sends half of the unit and then breaks the connection.
func Break(a *answer, u *Unit) error {
	if err := a.writeHalf(*u); err != nil {
		return err
	}
	return endBreak
}

// Stall sends neither the unit nor anything after it, and leaves the connection open.
func Stall(*answer, *Unit) error { return endStall }

// Wait delays the unit and everything after it by d.
func Wait(d time.Duration) UnitEffect {
	return func(a *answer, _ *Unit) error {
		if err := a.body.flush(); err != nil {
			return err
		}
		if !sleep(a.ctx, d) {
			return a.ctx.Err()
		}
		return nil
	}
}

// Drop leaves the unit out.
func Drop(_ *answer, u *Unit) error {
	u.none = true
	return nil
}

// Hold sends the unit after the n units that follow it, or never if fewer follow. A bookmark then
// gets the version of the last of them, as a late bookmark would have.
func Hold(n int) UnitEffect {
	return func(a *answer, u *Unit) error {
		if !u.none {
			a.delayed = append(a.delayed, delayed{*u, n})
			u.none = true
		}
		return nil
	}
}

// Replay sends the unit and then a unit again that was sent before: 0 is this unit, 1 the one
// before it.
func Replay(back int) UnitEffect {
	return func(a *answer, u *Unit) error {
		if err := a.put(*u); err != nil {
			return err
		}
		u.none = true
		if i := len(a.sent) - 1 - back; i >= 0 {
			return a.put(a.sent[i])
		}
		return nil
	}
}

// Insert sends units before the unit. In a stream they need a Type, and an Object unless they are
// bookmarks.
func Insert(units ...Unit) UnitEffect {
	return func(a *answer, _ *Unit) error {
		for _, u := range units {
			if err := a.put(u); err != nil {
				return err
			}
		}
		return nil
	}
}

// Error sends an ERROR event with the Status of err in place of the unit, and ends the stream.
func Error(err error) UnitEffect {
	return func(a *answer, _ *Unit) error {
		if err := a.put(Unit{Type: watch.Error, status: wire.Status(err)}); err != nil {
			return err
		}
		return endCut
	}
}

// Frame sends data in place of the unit, without adding framing to it.
func Frame(data string) UnitEffect {
	return func(_ *answer, u *Unit) error {
		u.Frame = []byte(data)
		return nil
	}
}

// Type changes the type of an event.
func Type(t watch.EventType) UnitEffect {
	return func(_ *answer, u *Unit) error {
		u.Type = t
		return nil
	}
}

// Set changes a member of the unit's object to a JSON value: Set("metadata.name", `7`). An empty
// value removes the member. An empty path means the whole object.
func Set(path, value string) UnitEffect {
	return func(a *answer, u *Unit) error {
		if u.none {
			return nil
		}
		if path == "" {
			u.Object = []byte(value)
			return nil
		}
		data, err := a.json(*u)
		if err != nil {
			return err
		}
		var root any
		if err := json.Unmarshal(data, &root); err != nil {
			return fmt.Errorf("apiserver: Set %s: %w", path, err)
		}
		if err := set(root, strings.Split(path, "."), value); err != nil {
			return fmt.Errorf("apiserver: Set %s: %w", path, err)
		}
		u.Object = mustJSON(root)
		return nil
	}
}

// set changes the member at a path of decoded JSON; see Set.
func set(at any, path []string, value string) error {
	for {
		m, ok := at.(map[string]any)
		switch {
		case !ok:
			return fmt.Errorf("%s is in no object", path[0])
		case len(path) > 1:
			at, path = m[path[0]], path[1:]
		case value == "":
			delete(m, path[0])
			return nil
		default:
			m[path[0]] = json.RawMessage(value)
			return nil
		}
	}
}
