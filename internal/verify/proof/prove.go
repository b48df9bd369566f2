package proof

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// The proofs drive an informer with random writes, faults, handlers, reads and time, record all
// that it shows and says, and let package oracle decide whether it kept its promises. A failure
// prints the commands that led to it and a seed that repeats it. README.md says what is proved,
// and how to run more of it.

// Random runs random histories against a server behind HTTP. over returns the transport of one
// history.
func Random(t *testing.T, over func() Transport) {
	(&coverage{roams: over().Roams}).prove(t, func() partServer { return newWeb(over()) })
}

func prove(t *testing.T, server func() partServer) { new(coverage).prove(t, server) }

func (c *coverage) prove(t *testing.T, server func() partServer) {
	leak.Collect(t, 20*time.Millisecond)
	for range rounds {
		rapid.Check(t, func(rt *rapid.T) {
			result, injected := proveOne(rt, server)
			if len(result.Violations) > 0 {
				site(rt, result.Violations[0])
			}
			c.add(result, injected)
		})
	}
	if !t.Failed() {
		c.check(t)
	}
}

// rounds is how often rapid's number of checks is run, which is 100 where no flag says otherwise.
const rounds = 3

// proveOne runs one history, and returns what the oracle says of it.
func proveOne(rt *rapid.T, server func() partServer) (result oracle.Result, injected []string) {
	rapid.SyncTest(rt, func(rt *rapid.T) {
		w := newWorld(rt, server())
		func() {
			defer w.end()
			rt.Repeat(w.commands())
			w.settle()
		}()
		result, injected = w.log.Check(func(ref any) oracle.Item { return *describe(ref.(*Part)) }), w.injected
	})
	return result, injected
}

// site fails from a line of its own for each family of invariants: a history shrinks only to one
// that fails from the same line.
func site(rt *rapid.T, v oracle.Violation) {
	switch v.ID[0] {
	case 'S', 'D':
		rt.Fatal(v)
	case 'H':
		rt.Fatal(v)
	case 'M', 'A':
		rt.Fatal(v)
	case 'Z':
		rt.Fatal(v)
	case 'R':
		rt.Fatal(v)
	case 'T':
		rt.Fatal(v)
	case 'Y', 'W':
		rt.Fatal(v)
	case 'G':
		rt.Fatal(v)
	default:
		rt.Fatal(v)
	}
}

// coverage guards against a proof of nothing: it counts how often each invariant could have been
// violated, and each fault was injected.
type coverage struct {
	roams     bool // see overtake
	histories int
	premises  map[string]int
	faults    map[string]int
}

func (c *coverage) add(r oracle.Result, injected []string) {
	if c.premises == nil {
		c.premises, c.faults = map[string]int{}, map[string]int{}
	}
	c.histories++
	for id, n := range r.Premises {
		c.premises[id] += n
	}
	for _, id := range injected {
		c.faults[id]++
	}
}

// enough is from how many histories on all of it must have occurred. The rarest occurs in about one
// of ten, so fewer would fail by chance.
const enough = 200

func (c *coverage) check(t *testing.T) {
	if c.histories < enough {
		return
	}
	ids := `S1 S2 S6 S7 S11 Y1 H1 H2 H3 H4 H5 H6 H7 H8 H9 H10 H12 A1 A2 M1 Z1 Y2 Y3 Y4 R1 R2 R3 R5 R7
		R8 R9 R12 R13 R14 R16 R17 T1 T2 W1 W2 G1 G4 L1 L2 L3 L4 L5 D3a D3b D4 D5 D7 D8 D14 D15 D16 U1 U2`
	if c.faults[tornFault] > 0 {
		ids += " H13"
	}
	for _, id := range strings.Fields(ids) {
		rare := c.roams && (id == "R16" || id == "R17") // who roams mostly finds a server that is the same
		if c.premises[id] == 0 && !rare {
			t.Errorf("%d histories never put %s to the test", c.histories, id)
		}
	}
	t.Logf("%d histories; premises %v; faults %v", c.histories, c.premises, c.faults)
}
