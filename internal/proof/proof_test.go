package proof

import (
	"testing"

	"github.com/go-lw/lw"
)

// TestProof runs against a server whose answers are function calls.
func TestProof(t *testing.T) { prove(t, func() partServer { return newDirect() }) }

// TestProofHTTP runs against a server behind HTTP.
func TestProofHTTP(t *testing.T) { Random(t, plain) }

// TestProofCBOR runs against a server behind HTTP that writes CBOR.
func TestProofCBOR(t *testing.T) { Random(t, cbor) }

func plain() Transport { return Transport{} }

// cbor asks for CBOR, and lets the server choose JSON if it has no CBOR.
func cbor() Transport { return Transport{Accept: "application/cbor,application/json"} }

// TestSmallScope runs every history of up to so many commands over two keys with each incident at
// each place, against a server whose answers are function calls. Nothing is drawn at random.
func TestSmallScope(t *testing.T) {
	scope{
		server: func() partServer { return newDirect() },
		setups: []scopeSetup{
			{mode: lw.ListAuto}, {mode: lw.ListPages},
			{mode: lw.ListAuto, full: true, less: 1}, {mode: lw.ListPages, full: true, turns: true, less: 1},
			{mode: lw.ListAuto, selector: true, less: 1},
		},
	}.run(t)
}

// TestSmallScopeHTTP is the same of one command less behind HTTP.
func TestSmallScopeHTTP(t *testing.T) { SmallScope(t, plain) }

// TestSmallScopeCBOR is the same in CBOR.
func TestSmallScopeCBOR(t *testing.T) { SmallScope(t, cbor) }
